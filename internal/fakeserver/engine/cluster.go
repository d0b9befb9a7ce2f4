package engine

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/neverhang/neverhang/internal/fakeserver"
)

// A Cluster is a [Server] with its services on a network: one for clients,
// and one more for each side if there are two.
type Cluster struct {
	*Server
	nets map[Side]*fakeserver.Server
}

// host is a side's name on the network in memory.
func host(side Side) string {
	if side == Front {
		return "model.test"
	}
	return string(side) + ".model.test"
}

// Start returns a cluster on a network of its own in memory. In a synctest
// bubble it must be made, used and closed inside.
func Start(cfg ServerConfig) (*Cluster, error) {
	return start(cfg, func(fc fakeserver.Config) (*fakeserver.Server, error) { return fakeserver.New(fc), nil })
}

// Listen returns a cluster on free ports of 127.0.0.1.
func Listen(cfg ServerConfig) (*Cluster, error) { return start(cfg, fakeserver.Listen) }

func start(cfg ServerConfig, serve func(fakeserver.Config) (*fakeserver.Server, error)) (*Cluster, error) {
	c := &Cluster{nets: make(map[Side]*fakeserver.Server)}
	srv, err := New(cfg)
	if err != nil {
		return nil, err
	}
	c.Server = srv
	sides := []Side{Front}
	if srv.router() {
		sides = append(sides, srv.sides()...)
	}
	for _, side := range sides {
		fs, err := serve(fakeserver.Config{Handler: srv.Handler(side), Net: outages(srv.cfg.Engine, side)})
		if err != nil {
			c.Close()
			return nil, err
		}
		c.nets[side] = fs
	}
	urls := make(map[Side]string)
	for _, side := range sides {
		urls[side] = c.URL(side)
	}
	srv.settle(urls, func(side Side) {
		if fs := c.nets[side]; fs != nil {
			fs.CloseConns()
		}
	})
	return c, nil
}

// outages are the times in which nobody is there to take a connection.
func outages(cfg Config, side Side) []fakeserver.NetFault {
	var out []fakeserver.NetFault
	for _, ch := range cfg.Changes {
		alone := side == Front && cfg.Split == nil && cfg.Router == nil
		if ch.Kind == Down && (ch.hits(side) || alone) {
			out = append(out, fakeserver.NetFault{Kind: fakeserver.Refused, From: ch.At, Until: ch.Until})
		}
	}
	return out
}

// Net returns the network of a side, nil if it has none of its own.
func (c *Cluster) Net(side Side) *fakeserver.Server { return c.nets[side] }

// URL returns the address of a side without a path.
func (c *Cluster) URL(side Side) string {
	fs := c.nets[side]
	if fs == nil {
		fs, side = c.nets[Front], Front
	}
	if strings.HasSuffix(fs.URL(), ".test") {
		return "http://" + host(side)
	}
	return fs.URL()
}

// BaseURL returns the address that clients of the API want.
func (c *Cluster) BaseURL() string { return c.URL(Front) + "/v1" }

// DialContext connects to the side that has the address.
func (c *Cluster) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	for side, fs := range c.nets {
		if url := strings.TrimPrefix(c.URL(side), "http://"); addr == url || addr == url+":80" {
			return fs.DialContext(ctx, network, addr)
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true}}
}

// Transport returns a new plain transport that reaches all sides. It has no
// timeouts and may be changed before its first use.
func (c *Cluster) Transport() *http.Transport {
	return &http.Transport{DialContext: c.DialContext}
}

// Close ends all requests and connections, and returns when nothing runs any
// more.
func (c *Cluster) Close() {
	for _, fs := range c.nets {
		fs.Close()
	}
	c.Server.Close()
}

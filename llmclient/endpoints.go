package llmclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/pacer"
)

// An Endpoint is one of several that a [Client] may ask.
type Endpoint struct {
	// Name is its name in events, errors and answers. Empty means its BaseURL.
	Name string

	// BaseURL, APIKey and Header are as in [Config]. They go to this endpoint
	// alone.
	BaseURL string
	APIKey  string
	Header  http.Header

	// Model is the model of requests that name none; empty means Config.Model. A
	// request that names a model asks every endpoint for that one.
	Model string

	// Order puts endpoints behind others: one is asked only when none with a
	// lower Order can take the call. Weight shares calls among those of the
	// same Order; zero means 1.
	Order  int
	Weight int

	// RetryCodes, if not nil, stand in place of Config's Retry.Codes.
	RetryCodes []string

	// Breaker and Pacer, if not nil, stand in place of Config's.
	Breaker *breaker.Config
	Pacer   *pacer.Config
}

// A WhenOpen says what calls do while no endpoint's breaker lets them through.
type WhenOpen uint8

const (
	// Wait waits for the first breaker that does, within Clocks.Call: an agent with
	// an hour of work behind it should outlive a short outage.
	Wait WhenOpen = iota
	// FailFast returns an error that matches [breaker.ErrOpen].
	FailFast
	// LeastBad asks the endpoint whose next trial is nearest, past its breaker. This
	// adds load to a server that is already weak. It is for callers that prefer a
	// small chance now to a good one later.
	LeastBad
)

// String returns the constant's name.
func (w WhenOpen) String() string {
	switch w {
	case Wait:
		return "Wait"
	case FailFast:
		return "FailFast"
	case LeastBad:
		return "LeastBad"
	}
	return fmt.Sprintf("WhenOpen(%d)", uint8(w))
}

// A place is an endpoint with its BaseURL parsed.
type place struct {
	Endpoint
	url   *url.URL // of the chat completions
	base  string   // for people
	field string   // before the names of its fields, in errors
}

// endpoints returns the endpoints of the configuration, checked.
func (c *Config) endpoints() ([]place, error) {
	if c.WhenOpen > LeastBad {
		return nil, fmt.Errorf("WhenOpen is %d, want Wait, FailFast or LeastBad", c.WhenOpen)
	}
	list := []place{{Endpoint: Endpoint{BaseURL: c.BaseURL, APIKey: c.APIKey, Header: c.Header}}}
	if len(c.Endpoints) > 0 {
		if c.BaseURL != "" || c.APIKey != "" || len(c.Header) > 0 {
			return nil, errors.New("BaseURL, APIKey or Header is set beside Endpoints; a key is for one endpoint, so each has its own")
		}
		list = list[:0]
	}
	for i, e := range c.Endpoints {
		list = append(list, place{Endpoint: e, field: fmt.Sprintf("Endpoints[%d].", i)})
	}
	names := make(map[string]bool)
	for i := range list {
		p := &list[i]
		if err := p.parse(); err != nil {
			return nil, err
		}
		if p.Model == "" {
			p.Model = c.Model
		}
		if p.Name == "" {
			p.Name = p.base
		}
		if names[p.Name] {
			p.Name = fmt.Sprintf("%s (%d)", p.Name, i+1) // one server with two keys
		}
		names[p.Name] = true
	}
	return list, nil
}

// parse checks the endpoint and parses its BaseURL.
func (p *place) parse() error {
	var err error
	switch p.url, p.base, err = parseBaseURL(p.BaseURL); {
	case err != nil:
	case p.Weight < 0:
		return fmt.Errorf("%sWeight is %d, want 0 or more", p.field, p.Weight)
	default:
		if bad := checkCredentials(p.APIKey, p.Header); bad != nil && p.field != "" {
			return fmt.Errorf("%s: %w", strings.TrimSuffix(p.field, "."), bad)
		} else if bad != nil {
			return bad
		}
	}
	if err != nil {
		return fmt.Errorf("%s%w", p.field, err) // the texts begin with the field
	}
	p.Header = p.Header.Clone()
	return nil
}

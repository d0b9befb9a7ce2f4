package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// greetLimit bounds the first question to an endpoint.
const greetLimit = 10 * time.Second

// A usageErr is an error that a corrected command line avoids.
type usageErr struct{ error }

func (e *usageErr) Unwrap() error { return e.error }

// greet asks the endpoint for its models before anything else. The question
// costs nothing, and a dead address or a wrong key is better told once now
// than 45 times later. It also finds the model's name if none was given. An
// endpoint that answers in any other way, or not in time, is no error: it may
// be busy, or not know the question.
func greet(ctx context.Context, o *options, say *printer) error {
	ctx, cancel := context.WithTimeout(ctx, greetLimit)
	defer cancel()
	patience := time.AfterFunc(time.Second, func() {
		say.line("asking %s which models it serves, for at most %v", hideKey(o.baseURL), greetLimit)
	})
	defer patience.Stop()
	models, err := listModels(ctx, o)
	switch {
	case err != nil:
		return err
	case o.model != "":
		return nil
	case len(models) == 1:
		o.model = models[0]
		say.line("the endpoint serves one model, %s", o.model)
		return nil
	case len(models) == 0:
		return &usageErr{errors.New("-model is needed: the endpoint does not say which models it serves")}
	}
	shown := strings.Join(models[:min(len(models), 10)], ", ")
	if len(models) > 10 {
		shown += ", …"
	}
	return &usageErr{fmt.Errorf("-model is needed: the endpoint serves %d, %s", len(models), shown)}
}

// listModels returns nothing, and no error, if the endpoint lives but does not
// tell.
func listModels(ctx context.Context, o *options) ([]string, error) {
	url := strings.TrimSuffix(strings.TrimRight(o.baseURL, "/"), "/chat/completions") + "/models"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, &usageErr{fmt.Errorf("-base-url %s cannot be used", hideKey(o.baseURL))}
	}
	if o.apiKey != "" {
		req.Header.Set("Authorization", "Bearer "+o.apiKey)
	}
	dialer := &net.Dialer{Timeout: greetLimit / 2}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), errInterrupted):
		return nil, errInterrupted
	case unreachable(err):
		return nil, fmt.Errorf("cannot reach %s: %w; is the server running, and is -base-url right?", hideKey(o.baseURL), err)
	default:
		return nil, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		what := "the key"
		if o.apiKey == "" {
			what = "calls without a key"
		}
		return nil, fmt.Errorf("%s refuses %s (401): put a valid one into the environment variable that -api-key-env names",
			hideKey(o.baseURL), what)
	}
	var list struct{ Data []struct{ ID string } }
	data, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(data, &list) != nil {
		return nil, nil
	}
	var names []string
	for _, m := range list.Data {
		if m.ID != "" {
			names = append(names, clean(m.ID))
		}
	}
	return names, nil
}

// unreachable reports whether no request can have reached a server: nobody
// listens, the name is unknown, or the other side does not speak TLS as it
// should.
func unreachable(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

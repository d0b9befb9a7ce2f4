package llmclient

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/pacer"
)

// Config sets up a [Client]. Everything but BaseURL, or Endpoints in its place,
// may be left zero.
type Config struct {
	// BaseURL is the endpoint, up to and without /chat/completions:
	// https://api.openai.com/v1, http://localhost:30000/v1. A query is kept.
	BaseURL string

	// APIKey is sent as a bearer token. Empty sends none. Package fmt and encoders
	// do not show it; but in an unexported field of a struct of yours fmt asks no
	// method, so keep the Client there and not the Config.
	APIKey string

	// Model is the model of requests that name none.
	Model string

	// Header is added to every request.
	Header http.Header

	// Endpoints are several endpoints in place of one: BaseURL, APIKey and
	// Header must then be empty, since a key is for one of them, and Model is
	// the model of those that name none.
	//
	// Each has a pacer, a breaker, a retry budget and a memory of its own. A
	// call goes to the one that can take it: the lowest in order, among those
	// the one that has the conversation in its cache, otherwise by weight. What
	// one endpoint fails, before there is an answer, another is asked for at
	// once; that counts as an attempt, and is paid for by the budget of the
	// other. [chat.Response.Endpoint] says who gave the answer.
	Endpoints []Endpoint

	// HTTPClient makes the requests. Nil means one of the client's own, made
	// for long streams and many agents. Its Timeout should be zero, since it
	// would also cut answers that are coming. Redirects are followed only to
	// the same host and only where they repeat the request (307 and 308).
	// Its Transport may ignore contexts: that costs a goroutine per call. On
	// Linux, TCP connections without a TCP_USER_TIMEOUT of their own get the limit
	// of Clocks.Send.
	HTTPClient *http.Client

	// Clocks bound every wait. The zero value bounds them all.
	Clocks Clocks

	// Retry says how failed attempts are repeated.
	Retry Retry

	// Limits bound what a server can make the client hold.
	Limits Limits

	// Breaker and Pacer guard the endpoint. Breaker.Name is the endpoint if
	// empty. All models of an endpoint share them: give models that fail or are
	// limited apart from each other a client each. The zero Pacer finds out by
	// itself how many requests the endpoint does best.
	Breaker breaker.Config
	Pacer   pacer.Config

	// WhenOpen says what calls do while the breaker is open, with several
	// endpoints those of all. The zero value is [Wait].
	WhenOpen WhenOpen

	// Adviser, if not nil, is asked about calls that wait for long.
	Adviser Adviser

	// Explain, if not nil, says in one line what is the matter with an endpoint,
	// by its name, or nothing. It is asked when a clock becomes suspect or runs out,
	// and its line stands in errors, events and [Dump]. It must be quick, make no
	// requests, and be safe for concurrent use.
	Explain func(endpoint string) string

	// OnEvent, if not nil, hears of what happens in calls. It runs in the
	// goroutine in which it happens, with no lock held, and must be quick and
	// safe for concurrent use. See [Event].
	OnEvent func(Event)

	// Logger, if not nil, gets the same events as log records: suspicions,
	// retries and changes of the breaker as warnings, the rest as debug.
	Logger *slog.Logger

	// TracerProvider and MeterProvider take spans and metrics. Nil means
	// OpenTelemetry's global providers, which do nothing until they are set.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
}

// Retry says how failed attempts are repeated. One owner decides, so nothing
// below the client should retry as well.
type Retry struct {
	// Attempts bounds the attempts of a call, the first included. Zero means
	// 4; 1 or less means that nothing is repeated. After a FirstOutput or
	// Attempt clock that ran out there is at most one more, beside those at endpoints
	// that the call has not asked yet.
	//
	// With several endpoints the first request to each is part of the first try.
	//
	// Requests that do not count, though they are listed in [Error.Attempts]:
	// one that met a dead pooled connection, those by which an endpoint showed
	// that it does not stream, or in which form it takes messages, redirects to
	// the same host, and, within Clocks.Call, those that met what passes: nobody,
	// or a 502, 503 or 529, at an endpoint that had worked, and a throttle at one
	// that serves others (the last two if WhenOpen is Wait).
	Attempts int

	// Backoff is the wait before the second attempt. It doubles with each
	// further one, up to MaxBackoff. Zero means 500 ms and 8 s. What the
	// endpoint asks for (Retry-After) is a floor, not an alternative.
	Backoff    time.Duration
	MaxBackoff time.Duration

	// Codes are the codes of refusals (400, 422) that pass when asked again, since
	// what was refused is what the model wrote. Nil means tool_use_failed and
	// json_validate_failed, which are Groq's; empty but not nil means none.
	Codes []string

	// Jitter spreads the waits: a backoff by this part of itself to either
	// side, a Retry-After by up to this part upwards only. Zero means 0.25, a
	// negative value none; at most 1.
	Jitter float64
}

// Limits bound what a server can make the client hold. In each field zero
// means the default and a negative value no limit.
type Limits struct {
	// EventBytes bounds one event of a stream. Default 16 MiB.
	EventBytes int

	// AnswerBytes bounds the body of an answer, as it is after decompression.
	// Default 64 MiB.
	AnswerBytes int64

	// OutputTokens bounds the output of an answer, estimated at four bytes to a
	// token: servers have been seen to generate without end, whatever
	// max_tokens says. Default 1,000,000.
	OutputTokens int

	// TokensPerSecond is the least rate, likewise estimated, at which output must
	// come once it has begun, over any minute in which the caller was reading.
	// A server that writes a word now and then holds a caller for ever without
	// any clock running out. Default none, since an overloaded one may be slow
	// and alive.
	TokensPerSecond float64

	// RepeatBytes is how much output may be one text of up to 1 KiB over and
	// over, with nothing else, coming piece by piece, after as much output of any
	// kind. Then the model has lost its
	// way, and the attempt ends; there is at most one more. The arguments of
	// tools may repeat four times as much. Default 32 KiB.
	RepeatBytes int
}

const (
	defaultAttempts    = 4
	defaultBackoff     = 500 * time.Millisecond
	defaultMaxBackoff  = 8 * time.Second
	defaultJitter      = 0.25
	defaultEventBytes  = 16 << 20
	defaultAnswerBytes = 64 << 20

	defaultOutputTokens = 1_000_000
	noLimit             = 1 << 62
)

// fill checks the configuration and puts in the defaults.
func (c *Config) fill() error {
	if err := c.Clocks.check(); err != nil {
		return err
	}
	r := &c.Retry
	switch {
	case !(r.Jitter <= 1): // nor a NaN
		return fmt.Errorf("Retry.Jitter is %v, want at most 1", r.Jitter)
	case r.Backoff < 0:
		return fmt.Errorf("Retry.Backoff is %v, want 0 or more", r.Backoff)
	case r.MaxBackoff < 0:
		return fmt.Errorf("Retry.MaxBackoff is %v, want 0 or more", r.MaxBackoff)
	case r.MaxBackoff > 0 && r.MaxBackoff < r.Backoff:
		return fmt.Errorf("Retry.MaxBackoff is %v, want at least Backoff %v", r.MaxBackoff, r.Backoff)
	}
	if r.Attempts == 0 {
		r.Attempts = defaultAttempts
	}
	if r.Backoff == 0 {
		r.Backoff = defaultBackoff
	}
	if r.MaxBackoff == 0 {
		r.MaxBackoff = max(defaultMaxBackoff, r.Backoff)
	}
	r.Backoff, r.MaxBackoff = min(r.Backoff, maxRetryAfter), min(r.MaxBackoff, maxRetryAfter) // so that sums fit durations
	if r.Codes == nil {
		r.Codes = []string{"tool_use_failed", "json_validate_failed"}
	}
	if r.Jitter == 0 {
		r.Jitter = defaultJitter
	}
	if c.Limits.EventBytes == 0 {
		c.Limits.EventBytes = defaultEventBytes
	} else if c.Limits.EventBytes < 0 {
		c.Limits.EventBytes = noLimit
	}
	if c.Limits.AnswerBytes == 0 {
		c.Limits.AnswerBytes = defaultAnswerBytes
	} else if c.Limits.AnswerBytes < 0 {
		c.Limits.AnswerBytes = noLimit
	}
	if c.Limits.OutputTokens == 0 {
		c.Limits.OutputTokens = defaultOutputTokens
	}
	if t := c.Limits.TokensPerSecond; t != t || t > 1e6 {
		return fmt.Errorf("Limits.TokensPerSecond is %v, want a rate that a model can reach", t)
	}
	if c.Limits.RepeatBytes == 0 {
		c.Limits.RepeatBytes = defaultRepeatBytes
	}
	c.Limits.RepeatBytes = min(c.Limits.RepeatBytes, mostRepeatBytes)
	return nil
}

// checkCredentials finds what could not be sent.
func checkCredentials(key string, header http.Header) error {
	for name, values := range header {
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return fmt.Errorf("the value of %s in Header has a control character in it", name)
			}
		}
		if !token(name) {
			return fmt.Errorf("the name %q in Header is not one that HTTP allows", name)
		}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return errors.New("APIKey has white space in it; it was probably copied with its line end")
	}
	return nil
}

// token reports whether s is a field name as RFC 9110, section 5.6.2 has it.
func token(s string) bool {
	const more = "!#$%&'*+-.^_`|~"
	for _, b := range []byte(s) {
		letter := b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z'
		if !letter && strings.IndexByte(more, b) < 0 {
			return false
		}
	}
	return s != ""
}

// parseBaseURL returns the URL of the chat completions, and the endpoint's
// name for people: without credentials and query, which may hold keys.
func parseBaseURL(s string) (*url.URL, string, error) {
	if s == "" {
		return nil, "", errors.New("BaseURL is empty, want the endpoint, as https://api.openai.com/v1")
	}
	if scheme, _, ok := strings.Cut(s, "://"); !ok || scheme != "http" && scheme != "https" {
		if _, rest, at := strings.Cut(s, "@"); at {
			s = rest // what stands before may be a password
		}
		return nil, "", fmt.Errorf("BaseURL is %q, want it to begin with http:// or https://", bounded(strings.SplitN(s, "?", 2)[0], 100))
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, "", errors.New("BaseURL cannot be parsed, want a URL as https://api.openai.com/v1")
	case u.Host == "":
		return nil, "", fmt.Errorf("BaseURL is %q, which names no host", redacted(u))
	case u.User != nil:
		return nil, "", errors.New("BaseURL has a user and password in it; use APIKey or Header")
	case u.Fragment != "":
		return nil, "", errors.New("BaseURL has a fragment (#) in it, which is never sent")
	}
	if path, ok := strings.CutSuffix(strings.TrimRight(u.EscapedPath(), "/"), chatPath); ok {
		u.Path, u.RawPath = "/", ""
		u = u.JoinPath(path)
	}
	if u.Path == "" {
		u.Path = "/" // JoinPath makes a relative path of an empty one
	}
	name := strings.TrimRight(redacted(u), "/")
	return u.JoinPath(chatPath), name, nil
}

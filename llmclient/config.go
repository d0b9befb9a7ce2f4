package llmclient

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
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
	// do not show it, unless the Config is in an unexported field of another struct,
	// where fmt calls no methods: keep the Client there instead.
	APIKey string

	// Model is the model of requests that name none.
	Model string

	// Header is added to every request.
	Header http.Header

	// Endpoints are several endpoints in place of one: BaseURL, APIKey and
	// Header must then be empty, since a key is for one of them, and Model is
	// the model of those that name none.
	//
	// Each has a pacer, a breaker, a retry budget and a memory of its own. A call
	// goes to an endpoint that can take it: the lowest in Order, among those the
	// one that has the conversation in its cache, otherwise by Weight. If one
	// endpoint fails before there is an answer, another is asked at once; that
	// counts as an attempt and is paid for from the retry budget of the endpoint
	// that is asked. [chat.Response.Endpoint] names the one that answered.
	Endpoints []Endpoint

	// HTTPClient makes the requests. Nil means one of the client's own, made
	// for long streams and many agents; like [http.DefaultTransport] it honours
	// HTTP_PROXY, HTTPS_PROXY and NO_PROXY. The Timeout of a given one should be
	// zero, since it would cut answers that are still coming. Redirects are
	// followed only to the same host and only where they repeat the request (307
	// and 308). Its Transport may ignore contexts: that costs a goroutine per
	// call. On Linux, TCP connections without a TCP_USER_TIMEOUT of their own get
	// the limit of Clocks.Send.
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

	// WhenOpen says what calls do while the breaker is open; with several endpoints,
	// while those of all are. The zero value is [Wait].
	WhenOpen WhenOpen

	// Adviser, if not nil, is asked about calls that wait for long.
	Adviser Adviser

	// Explain, if not nil, is given an endpoint's name and says in one line what is
	// wrong with it, or returns an empty string. It is called when a clock becomes
	// suspect or runs out, and its line is shown in errors, events and [Dump]. It
	// must be quick, make no requests, and be safe for concurrent use.
	Explain func(endpoint string) string

	// Rand returns numbers in [0, 1). It spreads backoffs and chooses among equal
	// endpoints, and it is the Rand of pacers and breakers that have none. Nil
	// means math/rand/v2. It is called with no lock held and possibly from several
	// goroutines.
	Rand func() float64

	// OnEvent, if not nil, is called for each [Event], in the goroutine in which it
	// happens and with no lock held. It must be quick and safe for concurrent use.
	OnEvent func(Event)

	// Logger, if not nil, gets the same events as log records. A failed call is
	// an error, an attempt and a successful call are debug, and all else is a
	// warning. The message is "neverhang: " and the [EventKind].
	Logger *slog.Logger

	// TracerProvider and MeterProvider take spans and metrics. Nil means
	// OpenTelemetry's global providers, which do nothing until they are set.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
}

// Retry says how failed attempts are repeated. One owner decides, so nothing
// below the client should retry as well.
type Retry struct {
	// Attempts bounds the attempts of a call, the first included. Zero means 4;
	// 1 or a negative value means no retries. After a FirstOutput or Attempt
	// clock has run out there is at most one more attempt, besides those at
	// endpoints that the call has not asked yet.
	//
	// With several endpoints the first request to each is part of the first try.
	//
	// Some requests do not count, though they are listed in [Error.Attempts]:
	//
	//   - one that met a dead pooled connection
	//   - those that showed that an endpoint does not stream, or in which form it
	//     takes messages
	//   - redirects to the same host
	//   - within Clocks.Call, those that could not connect to an endpoint that had
	//     worked before
	//   - likewise, if WhenOpen is Wait, those to which such an endpoint answered
	//     502, 503 or 529, and those that an endpoint throttled while it served
	//     other calls
	Attempts int

	// Backoff is the wait before the second attempt. It doubles with each
	// further one, up to MaxBackoff. Zero means 500 ms and 8 s. What the
	// endpoint asks for (Retry-After) is a floor, not an alternative.
	Backoff    time.Duration
	MaxBackoff time.Duration

	// Codes are the codes of refusals (400, 422) that are worth a retry, since the
	// endpoint refused the model's output and not the request. Nil means
	// tool_use_failed and json_validate_failed, which are Groq's; empty but not nil
	// means none.
	Codes []string

	// Jitter spreads the waits: a backoff by up to this fraction in either
	// direction, a Retry-After by up to this fraction upwards. Zero means 0.25, a
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
	// token. Some servers have generated without end in spite of max_tokens.
	// Default 1,000,000.
	OutputTokens int

	// TokensPerSecond is the least rate, estimated in the same way, at which output
	// must come once it has begun, over any minute in which the caller was reading.
	// Without it, a server that writes a word now and then can hold a caller for
	// ever, since no clock runs out. Default none: an overloaded server may be slow
	// but alive.
	TokensPerSecond float64

	// RepeatBytes ends an answer that has repeated a text of up to 1 KiB for this
	// many bytes, piece by piece, after as much output of any kind; at most one
	// more attempt follows. Tool arguments may repeat four times as much.
	// Default 32 KiB.
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
	noLimit             = 1 << 62 // as an int64
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
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Limits.EventBytes == 0 {
		c.Limits.EventBytes = defaultEventBytes
	} else if c.Limits.EventBytes < 0 {
		c.Limits.EventBytes = math.MaxInt
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

// checkCredentials finds keys and headers that could not be sent.
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
		return nil, "", errors.New("BaseURL is empty, want the endpoint, such as https://api.openai.com/v1")
	}
	if scheme, _, ok := strings.Cut(s, "://"); !ok || scheme != "http" && scheme != "https" {
		if _, rest, at := strings.Cut(s, "@"); at {
			s = rest // before it there may be a password
		}
		return nil, "", fmt.Errorf("BaseURL is %q, want it to begin with http:// or https://", bounded(strings.SplitN(s, "?", 2)[0], 100))
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, "", errors.New("BaseURL cannot be parsed, want a URL such as https://api.openai.com/v1")
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

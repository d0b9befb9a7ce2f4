package llmclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/neverhang/neverhang/chat"
)

// The names of OpenTelemetry's conventions for generative AI, as of
// semantic-conventions-genai v0.1.0. No Go package has them.
const (
	scope = "github.com/neverhang/neverhang/llmclient"

	attrOperation    = attribute.Key("gen_ai.operation.name")
	attrProvider     = attribute.Key("gen_ai.provider.name")
	attrModel        = attribute.Key("gen_ai.request.model")
	attrStream       = attribute.Key("gen_ai.request.stream")
	attrMaxTokens    = attribute.Key("gen_ai.request.max_tokens")
	attrRespModel    = attribute.Key("gen_ai.response.model")
	attrRespID       = attribute.Key("gen_ai.response.id")
	attrFinish       = attribute.Key("gen_ai.response.finish_reasons")
	attrFirstChunk   = attribute.Key("gen_ai.response.time_to_first_chunk")
	attrInputTokens  = attribute.Key("gen_ai.usage.input_tokens")
	attrOutputTokens = attribute.Key("gen_ai.usage.output_tokens")
	attrAgent        = attribute.Key("gen_ai.agent.name")
	attrAddress      = attribute.Key("server.address")
	attrPort         = attribute.Key("server.port")
	attrError        = attribute.Key("error.type")
	attrMethod       = attribute.Key("http.request.method")
	attrURL          = attribute.Key("url.full")
	attrStatus       = attribute.Key("http.response.status_code")
	attrResend       = attribute.Key("http.request.resend_count")

	// Those for which the conventions have no name.
	attrPhase    = attribute.Key("neverhang.phase")
	attrClock    = attribute.Key("neverhang.clock")
	attrAttempts = attribute.Key("neverhang.attempts")
	attrOutcome  = attribute.Key("neverhang.outcome")
)

// durationBuckets are the conventions' boundaries, and further ones for answers that
// take minutes.
var durationBuckets = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 655.36, 1310.72}

// telemetry makes the spans and metrics of calls and attempts. Prompts and
// answers are in none of them.
type telemetry struct {
	tracer   trace.Tracer
	base     []attribute.KeyValue // of every span and metric
	url      string
	given    bool // the meter provider is the user's: it need not know Enabled
	duration metric.Float64Histogram
	first    metric.Float64Histogram
	attempts metric.Int64Counter

	// Making a set of attributes sorts them, so each set is made once.
	sets *attributeSets
}

// A setKey holds the values on which the attributes of a metric depend.
type setKey struct {
	model   string
	outcome string // "" if it succeeded
	attempt bool
}

type attributeSets struct {
	mu   sync.Mutex
	made map[setKey]metric.MeasurementOption
}

// maxSets bounds the sets that are kept, since callers name the models.
const maxSets = 1000

// set returns the attributes of a metric.
func (t *telemetry) set(k setKey) metric.MeasurementOption {
	t.sets.mu.Lock()
	defer t.sets.mu.Unlock()
	if o, there := t.sets.made[k]; there {
		return o
	}
	attrs := append(t.base[:len(t.base):len(t.base)], attrModel.String(k.model))
	switch {
	case k.attempt && k.outcome == "":
		attrs = append(attrs, attrOutcome.String("ok"))
	case k.attempt:
		attrs = append(attrs, attrOutcome.String(k.outcome))
	case k.outcome != "":
		attrs = append(attrs, attrError.String(k.outcome))
	}
	o := metric.WithAttributeSet(attribute.NewSet(attrs...))
	if len(t.sets.made) < maxSets {
		t.sets.made[k] = o
	}
	return o
}

func newTelemetry(cfg *Config, u *url.URL) (t telemetry, err error) {
	tp, mp := cfg.TracerProvider, cfg.MeterProvider
	if tp == nil {
		tp = otel.GetTracerProvider()
	}
	if mp == nil {
		mp = otel.GetMeterProvider()
	}
	t.tracer = tp.Tracer(scope)
	t.given = cfg.MeterProvider != nil
	t.sets = &attributeSets{made: make(map[setKey]metric.MeasurementOption)}
	t.url = redacted(u)
	port, _ := strconv.Atoi(u.Port())
	if port == 0 {
		port = map[string]int{"http": 80, "https": 443}[u.Scheme]
	}
	t.base = []attribute.KeyValue{
		attrOperation.String("chat"), attrProvider.String(provider(u.Hostname())),
		attrAddress.String(u.Hostname()), attrPort.Int(port),
	}
	m := mp.Meter(scope)
	if t.duration, err = m.Float64Histogram("gen_ai.client.inference.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the call to its end, with all its attempts and waits."),
		metric.WithExplicitBucketBoundaries(durationBuckets...)); err != nil {
		return t, err
	}
	if t.first, err = m.Float64Histogram("gen_ai.client.inference.time_to_first_chunk", metric.WithUnit("s"),
		metric.WithDescription("Time from the start of the attempt that succeeded to its first output."),
		metric.WithExplicitBucketBoundaries(durationBuckets...)); err != nil {
		return t, err
	}
	t.attempts, err = m.Int64Counter("neverhang.client.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Requests sent, by outcome."))
	return t, err
}

// provider returns the conventions' name of the provider of a host. Other servers are
// identified by their address.
func provider(host string) string {
	switch host {
	case "api.openai.com":
		return "openai"
	case "api.deepseek.com":
		return "deepseek"
	case "api.groq.com":
		return "groq"
	case "api.mistral.ai":
		return "mistral_ai"
	case "api.x.ai":
		return "x_ai"
	case "api.perplexity.ai":
		return "perplexity"
	case "generativelanguage.googleapis.com":
		return "gcp.gemini"
	case "api.moonshot.ai", "api.moonshot.cn":
		return "moonshot_ai"
	case "api.anthropic.com":
		return "anthropic"
	}
	return "openai_compatible"
}

// startCall begins the call's span; attempts are below it.
func (t *telemetry) startCall(cl *call) (ctx context.Context) {
	ctx, cl.span = cl.parent, noSpan
	defer forgive()
	name, attrs := "chat "+cl.at.model, append(t.base[:len(t.base):len(t.base)], attrModel.String(cl.at.model))
	if !cl.infers() {
		name, attrs = cl.passed.method, t.base[2:]
	}
	spanned, span := t.tracer.Start(cl.parent, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	ctx, cl.span = spanned, span
	return ctx
}

// forgive is deferred around calls of tracers and meters. If one panics, the call must
// still get its answer, and its endpoint the permit back.
func forgive() { _ = recover() }

// noSpan is the span of a call whose tracer gave none.
var noSpan = trace.SpanFromContext(context.Background())

// infers reports whether the call asks a model for a message. Other requests through a
// Transport are not measured as inference.
func (cl *call) infers() bool {
	return cl.passed == nil || cl.passed.chat || cl.passed.messages
}

func (t *telemetry) endCall(cl *call, e *Error, a *attempt) {
	defer forgive()
	span := cl.span
	if cl.infers() && (t.given || t.duration.Enabled(cl.parent)) {
		ctx := context.WithoutCancel(cl.parent)
		k := setKey{model: cl.at.model}
		if e != nil {
			k.outcome = e.Kind.String()
		}
		attrs := t.set(k)
		t.duration.Record(ctx, time.Since(cl.started).Seconds(), attrs)
		if e == nil && a != nil && a.first > 0 {
			t.first.Record(ctx, a.first.Seconds(), attrs)
		}
	}
	if span.IsRecording() {
		t.describeCall(span, cl, e, a)
	}
	span.End()
}

func (t *telemetry) describeCall(span trace.Span, cl *call, e *Error, a *attempt) {
	cl.mu.Lock()
	n := cl.n
	cl.mu.Unlock()
	span.SetAttributes(attrAttempts.Int(n))
	if !cl.at.speaks.plain {
		span.SetAttributes(attrStream.Bool(true))
	}
	if cl.caller != "" {
		span.SetAttributes(attrAgent.String(cl.caller))
	}
	if cl.at.load.maxTokens > 0 {
		span.SetAttributes(attrMaxTokens.Int(cl.at.load.maxTokens))
	}
	describeUsage(span, usageOf(e, a))
	if e != nil {
		span.SetAttributes(attrError.String(e.Kind.String()), attrPhase.String(e.Phase.String()), attrFinish.StringSlice([]string{"error"}))
		if e.Clock != "" {
			span.SetAttributes(attrClock.String(string(e.Clock)))
		}
		span.SetStatus(codes.Error, e.text)
		return
	}
	if a == nil || a.resp == nil {
		return
	}
	r := a.resp
	span.SetAttributes(attrFinish.StringSlice([]string{string(r.FinishReason)}))
	if r.ID != "" {
		span.SetAttributes(attrRespID.String(r.ID))
	}
	if r.Model != "" {
		span.SetAttributes(attrRespModel.String(r.Model))
	}
	if a.first > 0 {
		span.SetAttributes(attrFirstChunk.Float64(a.first.Seconds()))
	}
}

// usageOf returns the server's usage for a call. Even a failed call may have one.
func usageOf(e *Error, a *attempt) *chat.Usage {
	switch {
	case e != nil && e.Partial != nil:
		return e.Partial.Usage
	case e == nil && a != nil && a.resp != nil:
		return a.resp.Usage
	}
	return nil
}

// describeUsage leaves out values that the server did not count: they are not zero.
func describeUsage(span trace.Span, u *chat.Usage) {
	if u == nil {
		return
	}
	if u.PromptTokens > 0 {
		span.SetAttributes(attrInputTokens.Int64(u.PromptTokens))
	}
	if u.CompletionTokens > 0 {
		span.SetAttributes(attrOutputTokens.Int64(u.CompletionTokens))
	}
}

// startAttempt begins the span of one request, if that of its call is recorded.
func (t *telemetry) startAttempt(a *attempt) {
	defer forgive()
	if !a.call.span.IsRecording() {
		return
	}
	method, target := http.MethodPost, t.url
	if p := a.call.passed; p != nil {
		method, target = p.method, redacted(p.url)
	}
	a.ctx, a.span = t.tracer.Start(a.ctx, method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attrMethod.String(method), attrURL.String(target), t.base[2], t.base[3]))
}

func (t *telemetry) endAttempt(a *attempt, e *Error) {
	defer forgive()
	k := setKey{model: a.at.model, attempt: true}
	if e != nil {
		k.outcome = e.Kind.String()
	}
	if t.given || t.attempts.Enabled(a.call.parent) {
		t.attempts.Add(context.WithoutCancel(a.call.parent), 1, t.set(k))
	}
	if a.span != nil {
		a.endSpan(k.outcome, e)
	}
}

// endSpan ends the span of the attempt.
func (a *attempt) endSpan(outcome string, e *Error) {
	span := a.span
	if span.IsRecording() {
		if a.n > 1 {
			span.SetAttributes(attrResend.Int(a.n - 1))
		}
		if a.out.status != 0 {
			span.SetAttributes(attrStatus.Int(a.out.status))
		}
		if e != nil {
			span.SetAttributes(attrError.String(outcome), attrPhase.String(e.Phase.String()))
			if e.Clock != "" {
				span.SetAttributes(attrClock.String(string(e.Clock)))
			}
			span.SetStatus(codes.Error, e.text)
		}
	}
	span.End()
}

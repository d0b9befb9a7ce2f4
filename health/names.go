package health

import (
	"maps"
	"strings"
)

// A meaning is the metric that a series stands for.
type meaning struct {
	metric Metric
	// If label is set, only series whose label has the value count.
	label, value string
}

func is(m Metric) []meaning { return []meaning{{metric: m}} }

// names are the series that are read, by name: of all kinds of servers, and of
// several generations of each. A histogram is read as its number of observations.
var names = merge(
	map[string][]meaning{"process_start_time_seconds": is(MetricStartTime)},
	prefixed("sglang:", map[string][]meaning{
		"num_running_reqs":                 is(MetricRunning),
		"num_queue_reqs":                   is(MetricWaiting),
		"num_retracted_reqs":               is(MetricPutOff),
		"token_usage":                      is(MetricKVUsage),
		"gen_throughput":                   is(MetricThroughput),
		"num_prefill_bootstrap_queue_reqs": is(MetricBootstrap),
		"num_prefill_inflight_queue_reqs":  is(MetricInflight),
		"num_decode_prealloc_queue_reqs":   is(MetricPrealloc),
		"num_decode_transfer_queue_reqs":   is(MetricTransferring),
		"num_requests_total":               is(MetricRequests),
		"num_aborted_requests_total":       is(MetricAborted),
		"num_retracted_requests_total":     is(MetricPreempted),
		"prompt_tokens_total":              is(MetricPromptTokens),
		"generation_tokens_total":          is(MetricGenerated),
		"num_bootstrap_failed_reqs_total":  is(MetricBootstrapFailed),
		"num_transfer_failed_reqs_total":   is(MetricTransferFailed),
		"realtime_tokens_total":            {{MetricComputed, "mode", "prefill_compute"}, {MetricDecoded, "mode", "decode"}},
		"time_to_first_token_seconds":      is(MetricFirstTokens),
		"inter_token_latency_seconds":      is(MetricSteps),
		"time_per_output_token_seconds":    is(MetricSteps), // older
		"e2e_request_latency_seconds":      is(MetricFinished),
		"kv_transfer_latency_ms":           is(MetricTransfers),
	}),
	prefixed("smg_", map[string][]meaning{
		"http_requests_total":           is(MetricRequests),
		"http_connections_active":       is(MetricConnections),
		"worker_requests_active":        is(MetricActive),
		"worker_health":                 is(MetricWorkersUp),
		"worker_pool_size":              is(MetricWorkers),
		"router_request_errors_total":   is(MetricErrors),
		"engine_running_requests":       is(MetricRunning),
		"engine_waiting_requests":       is(MetricWaiting),
		"pd_bootstrap_failures_total":   is(MetricBootstrapFailed),
		"pd_kv_transfer_failures_total": is(MetricTransferFailed),
		"router_ttft_seconds":           is(MetricFirstTokens),
		"router_tokens_total":           is(MetricGenerated),
		"http_responses_total":          {{MetricFinished, "status_code", "200"}, {MetricRejected, "status_code", "503"}, {MetricRejected, "status_code", "429"}},
	}),
	prefixed("vllm:", map[string][]meaning{
		"num_requests_running":    is(MetricRunning),
		"num_requests_waiting":    is(MetricWaiting),
		"num_requests_swapped":    is(MetricPutOff), // older
		"kv_cache_usage_perc":     is(MetricKVUsage),
		"gpu_cache_usage_perc":    is(MetricKVUsage), // older
		"num_preemptions_total":   is(MetricPreempted),
		"prompt_tokens_total":     is(MetricPromptTokens),
		"generation_tokens_total": is(MetricGenerated),
		"request_success_total": {
			{MetricFinished, "finished_reason", "stop"}, {MetricFinished, "finished_reason", "length"}, {MetricAborted, "finished_reason", "abort"},
		},
		"admission_rejections_total":           is(MetricRejected),
		"time_to_first_token_seconds":          is(MetricFirstTokens),
		"inter_token_latency_seconds":          is(MetricSteps),
		"time_per_output_token_seconds":        is(MetricSteps), // older
		"iteration_tokens_total":               is(MetricSteps),
		"avg_generation_throughput_toks_per_s": is(MetricThroughput), // older
	}),
	prefixed("llamacpp:", map[string][]meaning{
		"requests_processing":      is(MetricRunning),
		"requests_deferred":        is(MetricWaiting),
		"kv_cache_usage_ratio":     is(MetricKVUsage), // older
		"prompt_tokens_total":      is(MetricPromptTokens),
		"tokens_predicted_total":   is(MetricGenerated),
		"n_decode_total":           is(MetricSteps),
		"predicted_tokens_seconds": is(MetricThroughput),
	}),
	prefixed("tgi_", map[string][]meaning{
		"batch_current_size":       is(MetricRunning),
		"queue_size":               is(MetricWaiting),
		"request_count":            is(MetricRequests),
		"request_success":          is(MetricFinished),
		"request_generated_tokens": is(MetricFirstTokens),
		"batch_forward_duration":   is(MetricSteps),
	}),
)

// kinds are the kinds of servers, by the prefixes of their series' names.
var kinds = map[string]Kind{
	"sglang:": KindSGLang, "sglang_": KindSGLang, "smg_": KindGateway, "sgl_router_": KindGateway, "vllm:": KindVLLM, "vllm_": KindVLLM,
	"llamacpp:": KindLlamaCPP, "llamacpp_": KindLlamaCPP, "tgi_": KindTGI, "litellm_": KindLiteLLM,
}

// meanings returns what a series stands for. A counter's name may end in _total or
// not, and collectors may have replaced the colon by _.
func meanings(name string) []meaning {
	for _, prefix := range []string{"sglang_", "vllm_", "llamacpp_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			name = prefix[:len(prefix)-1] + ":" + rest
		}
	}
	for _, n := range []string{name, name + "_total", strings.TrimSuffix(name, "_total")} {
		if m := names[n]; m != nil {
			return m
		}
	}
	return nil
}

func prefixed(prefix string, in map[string][]meaning) map[string][]meaning {
	out := make(map[string][]meaning, len(in))
	for name, m := range in {
		out[prefix+name] = m
	}
	return out
}

func merge(in ...map[string][]meaning) map[string][]meaning {
	out := make(map[string][]meaning)
	for _, m := range in {
		maps.Copy(out, m)
	}
	return out
}

// kindOf returns the kind of the server that has a series of that name.
func kindOf(name string) Kind {
	for prefix, kind := range kinds {
		if strings.HasPrefix(name, prefix) {
			return kind
		}
	}
	return KindUnknown
}

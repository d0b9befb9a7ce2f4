package health

import (
	"maps"
	"strings"
)

// A meaning is what a series stands for.
type meaning struct {
	metric Metric
	// If label is set, only series that have that value for it count.
	label, value string
}

func is(m Metric) []meaning { return []meaning{{metric: m}} }

// names are the series that are read, by name, of all servers and of several
// generations of each. Histograms count by the number of their observations.
var names = merge(
	map[string][]meaning{"process_start_time_seconds": is(StartTime)},
	prefixed("sglang:", map[string][]meaning{
		"num_running_reqs":                 is(Running),
		"num_queue_reqs":                   is(Waiting),
		"num_retracted_reqs":               is(PutOff),
		"token_usage":                      is(KVUsage),
		"gen_throughput":                   is(Throughput),
		"num_prefill_bootstrap_queue_reqs": is(Bootstrap),
		"num_prefill_inflight_queue_reqs":  is(Inflight),
		"num_decode_prealloc_queue_reqs":   is(Prealloc),
		"num_decode_transfer_queue_reqs":   is(Transferring),
		"num_requests_total":               is(Requests),
		"num_aborted_requests_total":       is(Aborted),
		"num_retracted_requests_total":     is(Preempted),
		"prompt_tokens_total":              is(PromptTokens),
		"generation_tokens_total":          is(Generated),
		"num_bootstrap_failed_reqs_total":  is(BootstrapFailed),
		"num_transfer_failed_reqs_total":   is(TransferFailed),
		"realtime_tokens_total":            {{Computed, "mode", "prefill_compute"}, {Decoded, "mode", "decode"}},
		"time_to_first_token_seconds":      is(FirstTokens),
		"inter_token_latency_seconds":      is(Steps),
		"time_per_output_token_seconds":    is(Steps), // older
		"e2e_request_latency_seconds":      is(Finished),
		"kv_transfer_latency_ms":           is(Transfers),
	}),
	prefixed("smg_", map[string][]meaning{
		"http_requests_total":           is(Requests),
		"http_connections_active":       is(Connections),
		"worker_requests_active":        is(Active),
		"worker_health":                 is(WorkersUp),
		"worker_pool_size":              is(Workers),
		"router_request_errors_total":   is(Errors),
		"engine_running_requests":       is(Running),
		"engine_waiting_requests":       is(Waiting),
		"pd_bootstrap_failures_total":   is(BootstrapFailed),
		"pd_kv_transfer_failures_total": is(TransferFailed),
		"router_ttft_seconds":           is(FirstTokens),
		"router_tokens_total":           is(Generated),
		"http_responses_total":          {{Finished, "status_code", "200"}, {Rejected, "status_code", "503"}, {Rejected, "status_code", "429"}},
	}),
	prefixed("vllm:", map[string][]meaning{
		"num_requests_running":    is(Running),
		"num_requests_waiting":    is(Waiting),
		"num_requests_swapped":    is(PutOff), // older
		"kv_cache_usage_perc":     is(KVUsage),
		"gpu_cache_usage_perc":    is(KVUsage), // older
		"num_preemptions_total":   is(Preempted),
		"prompt_tokens_total":     is(PromptTokens),
		"generation_tokens_total": is(Generated),
		"request_success_total": {
			{Finished, "finished_reason", "stop"}, {Finished, "finished_reason", "length"}, {Aborted, "finished_reason", "abort"},
		},
		"admission_rejections_total":           is(Rejected),
		"time_to_first_token_seconds":          is(FirstTokens),
		"inter_token_latency_seconds":          is(Steps),
		"time_per_output_token_seconds":        is(Steps), // older
		"iteration_tokens_total":               is(Steps),
		"avg_generation_throughput_toks_per_s": is(Throughput), // older
	}),
	prefixed("llamacpp:", map[string][]meaning{
		"requests_processing":      is(Running),
		"requests_deferred":        is(Waiting),
		"kv_cache_usage_ratio":     is(KVUsage), // older
		"prompt_tokens_total":      is(PromptTokens),
		"tokens_predicted_total":   is(Generated),
		"n_decode_total":           is(Steps),
		"predicted_tokens_seconds": is(Throughput),
	}),
	prefixed("tgi_", map[string][]meaning{
		"batch_current_size":       is(Running),
		"queue_size":               is(Waiting),
		"request_count":            is(Requests),
		"request_success":          is(Finished),
		"request_generated_tokens": is(FirstTokens),
		"batch_forward_duration":   is(Steps),
	}),
)

// kinds are the kinds of servers by what the names of their metrics begin with.
var kinds = map[string]Kind{
	"sglang:": SGLang, "sglang_": SGLang, "smg_": Gateway, "sgl_router_": Gateway, "vllm:": VLLM, "vllm_": VLLM,
	"llamacpp:": LlamaCPP, "llamacpp_": LlamaCPP, "tgi_": TGI, "litellm_": LiteLLM,
}

// meanings returns what a series stands for. Counters may be told with _total or
// without, and what collects metrics may have made _ of the colon.
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
	return Unknown
}

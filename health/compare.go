package health

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Difference is something that is not as it was in a better run.
type Difference struct {
	Where string `json:"where"` // a server's name, "client", "environment" or "neverhang"
	What  string `json:"what"`
	Good  string `json:"good"` // empty if it was not there
	Bad   string `json:"bad"`  // likewise

	// Suspicion orders differences, from 0 to 100.
	Suspicion int `json:"suspicion"`

	// Why says what it may do, if that is known.
	Why string `json:"why,omitempty"`

	// Hidden reports that a short benchmark would not show it: it matters with
	// long contexts, over time, or when something fails.
	Hidden bool `json:"hidden,omitempty"`
}

func (d Difference) String() string {
	was, is := d.Good, d.Bad
	if was == "" {
		was = "not there"
	}
	if is == "" {
		is = "not there"
	}
	s := fmt.Sprintf("%s: %s was %s, is %s", d.Where, d.What, was, is)
	if d.Why != "" {
		s += " (" + d.Why + ")"
	}
	if d.Hidden {
		s += " [a short benchmark would not show it]"
	}
	return s
}

// A suspect is a pattern of settings and what a change of them may do.
type suspect struct {
	name      *regexp.Regexp
	suspicion int
	hidden    bool
	why       string
}

// suspects are in order: the first that matches counts.
var suspects = []suspect{
	{rx(`last_gen_throughput|internal_states|^start_time$|uptime|load$|\bload\b|avg_|_ts$|timestamp|random_seed|\bpid\b|\bport$|_ports?\b|tokenizer_worker|is_sleeping|expires_at|total_prefilled|step_time`), 0, false, "changes by itself"},
	{rx(`^log_|log_level|log_requests|^show_|banner|metrics_interval`), 10, false, ""},
	{rx(`attention_backend|attention.*backend|flashinfer|flash_attn|use_mla|mla_|page_size|block_size|swa_|sliding`), 95, true, "how attention is computed: short prompts pass where long contexts are wrong, hang or never end"},
	{rx(`rope|yarn|context_len|max_model_len|n_ctx|max_position|model_max_length`), 90, true, "how long contexts may be, and how they are computed"},
	{rx(`chunked_prefill|max_prefill_tokens|max_num_batched_tokens|prefill_max|mixed_chunk`), 85, true, "how long prompts are cut: it decides on waiting times and memory with long contexts"},
	{rx(`disagg|bootstrap|transfer|kv_connector|mooncake|nixl|ib_device`), 85, true, "how prefill hands over to decode: what is wrong there shows under load, or after a restart"},
	{rx(`kv_cache_dtype|kv_dtype|cache_type_k|cache_type_v`), 80, true, "the precision of keys and values, which long contexts feel first"},
	{rx(`cuda_graph|enforce_eager|compile|graph_max`), 75, true, "which batch sizes are fast: a benchmark may never reach the others"},
	{rx(`mem_fraction|gpu_memory_utilization|max_total_num_tokens|max_total_tokens|num_gpu_blocks|swap_space|cpu_offload|hicache|hierarchical`), 75, true, "how much memory there is for keys and values, which is only used up under load"},
	{rx(`max_running|max_num_seqs|max_batch|total_slots|max_concurrent|parallel_slots|n_parallel`), 75, true, "how many answers are computed at a time"},
	{rx(`max_queue|queue_size|max_queued|num_queued|retry|circuit|cb_|timeout|watchdog|^Clocks\.`), 65, true, "what happens when there is too much, or something fails"},
	{rx(`speculative|draft|eagle|mtp|lookahead`), 70, true, "answers that are guessed ahead, which helps or hurts by the text"},
	{rx(`schedul|policy|priority|conservativ|overlap`), 65, true, "in which order requests are computed"},
	{rx(`radix|prefix_cach|enable_cache|cache_reuse`), 65, true, "whether prompts that begin alike are computed once"},
	{rx(`quantiz|dtype|weight|load_format|revision`), 70, false, "what the model's weights are"},
	{rx(`model_path|served_model|model_id|tokenizer|chat_template|reasoning_parser|tool_call_parser|\bmodels?\b`), 70, false, "what the model is and how it is spoken to"},
	{rx(`(^|\.)(tp|dp|pp|ep)_size|tensor_parallel|data_parallel|pipeline|expert|nnodes|moe`), 65, false, "how the model is spread"},
	{rx(`grammar|structured|guided`), 50, true, "how answers are held to a form"},
	{rx(`^kind$|^role$`), 100, false, "it is another server"},
	{rx(`version|build_info|commit`), 80, true, "other software"},
	{rx(`nccl|cuda|torch|gloo|triton|hsa|rocm`), 60, true, "libraries below the engine"},
}

func rx(s string) *regexp.Regexp { return regexp.MustCompile(`(?i)` + s) }

// Compare lists what has changed since a better run, the most suspicious first.
// Servers are held against those of the same name, or else of the same role, and
// variables of the environment if both runs have asked for them. What may be a
// secret is hidden, also if a fingerprint has it.
func Compare(good, bad Fingerprint) []Difference {
	var out []Difference
	add := func(where, what, was, is string) {
		// Fingerprints may have been made by others.
		if was, is = hide(what, was), hide(what, is); was == unset {
			was = ""
		}
		if is == unset {
			is = ""
		}
		if was == is {
			return
		}
		d := Difference{Where: where, What: what, Good: was, Bad: is, Suspicion: 30}
		for _, s := range suspects {
			if s.name.MatchString(what) {
				d.Suspicion, d.Why, d.Hidden = s.suspicion, s.why, s.hidden
				break
			}
		}
		if was == hidden || is == hidden {
			d.Suspicion = min(d.Suspicion, 20)
		}
		if d.Suspicion > 0 {
			out = append(out, d)
		}
	}
	both := func(where string, was, is map[string]string) {
		keys := make(map[string]bool)
		for k := range was {
			keys[k] = true
		}
		for k := range is {
			keys[k] = true
		}
		for k := range keys {
			add(where, k, was[k], is[k])
		}
	}
	pairs, gone, fresh := pair(good.Servers, bad.Servers)
	for _, p := range pairs {
		where, a, b := p[1].Name, p[0], p[1]
		add(where, "kind", string(a.Kind), string(b.Kind))
		add(where, "role", string(a.Role), string(b.Role))
		if a.Info["version"] == "" || b.Info["version"] == "" {
			add(where, "version", a.Version, b.Version)
		}
		add(where, "models", strings.Join(a.Models, " "), strings.Join(b.Models, " "))
		add(where, "metrics", fmt.Sprint(a.Metrics), fmt.Sprint(b.Metrics))
		both(where, a.Labels, b.Labels)
		both(where, a.Info, b.Info)
	}
	for _, s := range gone {
		out = append(out, Difference{Where: s.Name, What: "server", Good: tidy(mask(s.URL)), Suspicion: 90, Why: "it is not there any more, or did not answer"})
	}
	for _, s := range fresh {
		out = append(out, Difference{Where: s.Name, What: "server", Bad: tidy(mask(s.URL)), Suspicion: 60, Why: "it was not there"})
	}
	out = append(out, starts(pairs)...)
	add("neverhang", "version", good.Neverhang, bad.Neverhang)
	add("client", "go", good.Go, bad.Go)
	both("client", good.Client, bad.Client)
	for k, was := range good.Env {
		// One that was asked for in one run alone may have been there in both.
		if is, asked := bad.Env[k]; asked {
			add("environment", k, was, is)
		}
	}
	for i := range out {
		// What we have changed ourselves is seldom what makes a server hang.
		if d := &out[i]; d.Where == "client" || d.Where == "neverhang" {
			d.Suspicion = d.Suspicion * 2 / 3
		}
	}
	slices.SortFunc(out, func(a, b Difference) int {
		return cmp.Or(b.Suspicion-a.Suspicion, cmp.Compare(a.Where, b.Where), cmp.Compare(a.What, b.What))
	})
	return out
}

// pair finds which servers of two runs are the same.
func pair(good, bad []Server) (pairs [][2]Server, gone, fresh []Server) {
	left := slices.Clone(good)
	find := func(same func(a Server) bool) int { return slices.IndexFunc(left, same) }
	for _, b := range bad {
		i := find(func(a Server) bool { return a.Name == b.Name && a.Role == b.Role })
		if i < 0 {
			i = find(func(a Server) bool { return a.URL == b.URL })
		}
		if i < 0 {
			i = find(func(a Server) bool { return a.Role == b.Role })
		}
		if i < 0 {
			fresh = append(fresh, b)
			continue
		}
		pairs = append(pairs, [2]Server{left[i], b})
		left = slices.Delete(left, i, i+1)
	}
	return pairs, left, fresh
}

// starts looks at who was restarted. One side alone is the most suspicious of
// all changes; that all are younger is what one expects.
func starts(pairs [][2]Server) []Difference {
	var again, same []Server
	for _, p := range pairs {
		a, b := p[0].Started, p[1].Started
		switch {
		case p[1].Role == RoleRouter || a.IsZero() || b.IsZero():
		case p[0].URL != p[1].URL: // another process anyway
		case b.Sub(a) > 2*time.Second:
			again = append(again, p[1])
		default:
			same = append(same, p[1])
		}
	}
	var out []Difference
	for _, s := range again {
		d := Difference{Where: s.Name, What: "process started", Bad: s.Started.Format(time.DateTime), Suspicion: 25, Why: "it was restarted"}
		for _, p := range pairs {
			if p[1].Name == s.Name {
				d.Good = p[0].Started.Format(time.DateTime)
			}
		}
		if len(same) > 0 {
			d.Suspicion, d.Hidden = 98, true
			d.Why = "it was restarted alone, and " + same[0].Name + " was not: what that one holds belongs to the process that is gone"
		}
		out = append(out, d)
	}
	return out
}

// Package engine is a simulated inference engine: what a model server does
// with many requests at once, as far as its clients can feel it and its
// metrics can show it. It is there to measure policies of admission on, and
// to play incidents against.
//
// A [Core] is the engine alone. It keeps no clock and starts nothing: told
// what time it is, it says what has happened. It batches continuously over a
// number of slots; a step of its scheduler costs more the more it holds, a
// prompt costs what the prefix cache does not have, memory for keys and values
// runs out and puts the youngest off, a full queue refuses, and what clients
// give up on goes on for a while and then may pin its slot. Prefill and decode
// can be two services with a transfer in between, and a router may stand in
// front. A [Change] is what happens to it over time, and a [Setting] an engine
// with its changes, by name:
//
//	cfg, err := engine.Setting("overload", seed)
//	score, err := engine.Play(cfg, engine.Load{Calls: -1, Until: engine.SettingTime}, engine.Fixed(10))
//	fmt.Println(score.Useful)
//
// A [Server] puts a core on the clock and behind HTTP: chat completions,
// streamed and plain, health checks that lie the way theirs do, metrics by the
// names of SGLang, its router and vLLM, and rate headers as each provider
// writes them. A [Cluster] has it on a network in memory or on loopback, with
// an address for each service:
//
//	c, err := engine.Start(engine.ServerConfig{Engine: cfg})
//	defer c.Close()
//	client := &http.Client{Transport: c.Transport()}
//	resp, err := client.Get(c.URL(engine.Decode) + "/metrics")
//
// # What it promises
//
//   - The same requests at the same times get the same answers at the same
//     times. What is drawn follows from the seed and the content of a request,
//     and requests of one moment have an order of their own, so that a run in
//     virtual time can be repeated however its goroutines were scheduled.
//   - Every request ends in exactly one way, a [Result]. Slots, queues and
//     memory are never overdrawn, and every token is on the [Record] once:
//     heard by somebody, or wasted.
//   - A core makes more than ten million tokens in a second of real time, a
//     server on a network in memory thousands of streamed requests.
//   - [Server.Close] and [Cluster.Close] leave nothing running.
//
// # What it leaves out
//
// Answers are not put into the prefix cache, only prompts are. Transfers are
// bounded in number, not in bandwidth. A slot that is pinned keeps no memory.
package engine

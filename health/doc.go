// Package health asks model servers for their metrics, compares them with the
// client's calls in flight, and names the most likely cause of trouble.
//
//	mon, err := health.New(health.Config{
//		Targets: []health.Target{{URL: "http://localhost:30000"}},
//		OnVerdict: func(v health.Verdict) { fmt.Println(v) },
//	})
//	if err != nil {
//		return err
//	}
//	defer mon.Close()
//	cfg := llmclient.Config{BaseURL: "http://localhost:30000/v1"}
//	mon.Attach(&cfg) // it advises the client, explains its errors, hears of its events
//	client, err := llmclient.New(cfg)
//	if err != nil {
//		return err
//	}
//	unwatch := mon.Watch(client) // it sees which calls are in flight
//	defer unwatch()
//
// # How it works
//
// [Detect] finds out which software a server runs. While calls are in flight a
// [Monitor] takes a [Sample] of each target every Interval, and keeps a bounded
// window of them. [Diagnose] makes a [Verdict] of the client's [View] and the
// samples. It is a pure function: the same facts give the same verdict. A
// [Fingerprint] keeps the settings of a run, and [Compare] lists what has changed
// since a better run.
//
// # What it promises
//
//   - Questions are free. A Monitor never asks for a completion, and never for a
//     health check that makes a token (SGLang's /health and /health_generate,
//     LiteLLM's /health): those cost money, and leave requests behind in servers
//     that are stuck.
//   - Questions do no harm. Each has a deadline. Each target is asked one question
//     at a time, and less and less often while it does not answer. All questions
//     draw on one budget and on the clients' retry budgets. Nothing is asked while
//     no call is in flight. A call waits for the deadline of one question at most.
//   - Counters are compared over time. A gauge is believed only while something
//     moves, since a scheduler that has stopped leaves its last values in place.
//     Metrics that stand still while answers come are not believed, and neither
//     are those of several processes that answer in turns.
//   - A verdict names its evidence with numbers and times, and what it ruled out by
//     which fact. If the facts are not enough, it says so, and which facts are
//     missing. At rest it claims nothing: the numbers of a healthy server and of
//     one that is about to hang are the same.
//   - Only a fresh sample of a server cuts calls or holds their limits back.
//   - A key goes to the addresses it was given with and nowhere else, not even to
//     the workers that a router names. What may be a secret in settings and
//     variables is hidden before it is kept, and again before it is shown.
//   - [Monitor.Close] leaves nothing running. The answers of servers are bounded,
//     and may hold anything.
package health

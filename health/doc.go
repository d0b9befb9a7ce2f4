// Package health asks model servers how they are, sets their view beside the
// client's, and names the most likely cause of trouble.
//
//	mon, err := health.New(health.Config{
//		Targets: []health.Target{{URL: "http://localhost:30000"}},
//		OnVerdict: func(v health.Verdict) { fmt.Println(v) },
//	})
//	if err != nil {
//		return err
//	}
//	defer mon.Close()
//	client, err := llmclient.New(llmclient.Config{
//		BaseURL: "http://localhost:30000/v1",
//		Adviser: mon,      // busy holds back, idle cuts
//		OnEvent: mon.Note, // what became of our calls
//		Explain: mon.Explain, // errors say what the server says
//	})
//	if err != nil {
//		return err
//	}
//	mon.Watch(client) // who waits for what
//
// # How it works
//
// [Detect] finds out what a server is. A [Monitor] takes a [Sample] of each of
// its targets now and then while calls are in flight, and keeps a bounded
// window of them. [Diagnose] makes a [Verdict] of the client's [View] and the
// samples; it is a pure function, so that what it says can be tried, tested and
// disputed. A [Fingerprint] is what was set how during a run, and [Compare]
// says what has changed since a better one.
//
// # What it promises
//
//   - Questions are free: never a completion, never a health check that makes a
//     token (SGLang's /health and /health_generate, LiteLLM's /health), since
//     those cost money and leave requests behind in servers that are stuck.
//   - Questions do no harm: each has a deadline, each target is asked one at a
//     time, those that do not answer are asked less and less often, all draw on
//     one budget and on that of the clients' retries, and none is asked while
//     nothing is in flight. No call waits for a question longer than the deadline
//     of one.
//   - Counters are compared over time. A gauge is believed only while something
//     moves: a scheduler that has stopped leaves its last values standing. Nothing
//     is believed that stands still while answers come, or that several processes
//     tell in turns.
//   - A verdict names its evidence, with numbers and times, what it ruled out and
//     by which fact. Where the facts do not tell, it says so, and says what would.
//     At rest it claims nothing: the numbers of a healthy server and those of one
//     that is about to hang are the same.
//   - Only a server's own view that is fresh holds calls back or cuts them.
//   - Keys go to the addresses they were given with and nowhere else, not even to
//     the workers that a router names. What may be a secret in settings and
//     variables is hidden before it is kept, and before a difference is shown.
//   - [Monitor.Close] stops everything and leaves nothing running. Answers of
//     servers are bounded and may hold anything at all.
package health

// Package conformance shows what real SDKs make of a model server in trouble:
// alone, and with a neverhang Transport below them.
//
// It has nothing to import. Its tests put six libraries in front of a scripted
// server, each as its own documentation uses it and with its own defaults, ask
// in four ways, and go through every fault that a server, a gateway or a
// network is known for. The one line that differs is the http.Client:
//
//	tr, err := llmclient.NewTransport(llmclient.Config{})
//	if err != nil {
//		return err
//	}
//	defer tr.Close()
//	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: tr}))
//
// What the tests hold:
//
//   - With the Transport no call hangs, none reports success with less than the
//     whole answer, and none fails while the server is healthy. A fault that
//     comes before the first output is never seen; nor is one anywhere in an
//     answer that is not streamed.
//   - No call that an SDK brings through alone is lost with the Transport.
//   - When the SDK has returned, nothing of its call is left.
//   - What is not so is listed, each with its reason, and a test fails as well
//     when a reason has gone away.
//
// Every call has a testing/synctest bubble to itself: an hour of waiting costs
// nothing, and a hang is a fact and not a guess. README.md has the table, which
// is compared with every run.
package conformance

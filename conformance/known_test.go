package conformance_test

import "slices"

// An exception is a group of cells that are not as they should be, with the
// reason. The test fails for any other, and for one that has been mended and is
// still listed.
type exception struct {
	why  string
	hits func(c cell) bool
}

var exceptions = []exception{
	{
		why: "The line limit of langchaingo's stream reader is 64 KiB, and the event is longer.",
		hits: func(c cell) bool {
			return c.sdk.name == "langchaingo" && c.mode.streamed && c.fault.large
		},
	},
	{
		why: "The SDK sends the whole call anew after any Go error, without saying that it does. Turn its own retries off.",
		hits: func(c cell) bool {
			return c.fault.name == "no head, every time" && !c.quiet && c.among("fantasy")
		},
	},
}

// exception returns the number from 1 of the exception that a cell falls under,
// or 0.
func (c cell) exception() int {
	return 1 + slices.IndexFunc(exceptions, func(e exception) bool { return e.hits(c) })
}

func (c cell) among(sdks ...string) bool { return slices.Contains(sdks, c.sdk.name) }

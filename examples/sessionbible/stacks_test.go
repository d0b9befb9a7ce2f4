package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const dump = `goroutine 1 [semacquire, 2 minutes]:
sync.runtime_SemacquireWaitGroup(0xc000012345?, 0x30?)
	/go/src/runtime/sema.go:114 +0x2e
sync.(*WaitGroup).Wait(0xc000012345)
	/go/src/sync/waitgroup.go:118 +0x48
main.main()
	/x/main.go:20 +0x1d

goroutine 18 [select]:
net/http.(*persistConn).roundTrip(0xc0001, 0xc0002)
	/go/src/net/http/transport.go:2799 +0x98b
github.com/neverhang/neverhang/agentloop.(*Agent).Run(...)
	/x/agent.go:7
main.naive.func1()
	/x/naive.go:9 +0x2
created by main.naive in goroutine 1
	/x/naive.go:8 +0x3

goroutine 19 [select, 2 minutes]:
net/http.(*persistConn).roundTrip(0xc0007, 0xc0008)
	/go/src/net/http/transport.go:2799 +0x98b
github.com/neverhang/neverhang/agentloop.(*Agent).Run(...)
	/x/agent.go:7
main.naive.func1()
	/x/naive.go:9 +0x2
created by main.naive in goroutine 1
	/x/naive.go:8 +0x3
`

func TestStacksAreGroupedAndCounted(t *testing.T) {
	groups := groupStacks(dump)
	if assert.Len(t, groups, 2) {
		assert.True(t, groups[0].through("roundTrip"))
		assert.False(t, groups[1].through("roundTrip"))
	}
	var b strings.Builder
	for _, g := range groups {
		g.print(&b)
	}
	assert.Equal(t, `    2 goroutines in net/http.(*persistConn).roundTrip (select)
      main.naive.func1 → agentloop.(*Agent).Run → net/http.(*persistConn).roundTrip
    1 goroutine in sync.(*WaitGroup).Wait (semacquire)
      main.main → sync.(*WaitGroup).Wait
`, b.String())
	assert.Empty(t, groupStacks("no dump"))
}

func TestStacksFindThisGoroutine(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	for range 3 {
		go func() { <-stop }()
	}
	found := false
	for _, g := range stacks() {
		found = found || g.through("TestStacksFindThisGoroutine")
	}
	assert.True(t, found)
}

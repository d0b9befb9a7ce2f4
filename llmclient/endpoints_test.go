package llmclient_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

// A realm is a client and several servers in a bubble of virtual time.
type realm struct {
	world
	srvs []*fake.Server
}

// inRealm runs a test against one server for each of srvs. Their endpoints are
// called a, b, and so on.
func inRealm(t *testing.T, srvs []fake.Config, change func(*llmclient.Config), test func(t *testing.T, r *realm)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &realm{world: world{t: t, start: time.Now()}}
		cfg := llmclient.Config{
			Model:   "test-model",
			Retry:   llmclient.Retry{Jitter: -1},
			Pacer:   pacer.Config{Rand: func() float64 { return 0 }},
			OnEvent: r.note,
		}
		byHost := make(map[string]*fake.Server)
		for i, c := range srvs {
			srv := fake.New(c)
			name := string(rune('a' + i))
			byHost[name+".test:80"] = srv
			r.srvs = append(r.srvs, srv)
			cfg.Endpoints = append(cfg.Endpoints, llmclient.Endpoint{Name: name, BaseURL: "http://" + name + ".test/v1"})
			t.Cleanup(srv.Close)
		}
		cfg.HTTPClient = &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 100,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return byHost[addr].DialContext(ctx, network, addr)
			},
		}}
		if change != nil {
			change(&cfg)
		}
		var err error
		r.client, err = llmclient.New(cfg)
		require.NoError(t, err)
		t.Cleanup(cfg.HTTPClient.CloseIdleConnections)
		t.Cleanup(func() { _ = r.client.Close() })
		test(t, r)
		require.Empty(t, r.client.InFlight(), "calls in flight after the test")
		for _, ep := range r.client.Endpoints() {
			require.Zero(t, ep.Pacer.InFlight, "permits out after the test")
			require.Zero(t, ep.Calls, "calls counted after the test")
		}
	})
}

// asked returns how many completions each server was asked for.
func (r *realm) asked() []int {
	var n []int
	for _, srv := range r.srvs {
		n = append(n, len(srv.Requests()))
	}
	return n
}

// says returns servers that give the same reply to all.
func says(replies ...fake.Step) (list []fake.Config) {
	for _, s := range replies {
		list = append(list, fake.Config{Script: fake.Always(s)})
	}
	return list
}

// inOrder makes the endpoints of a configuration come one after the other.
func inOrder(c *llmclient.Config) {
	for i := range c.Endpoints {
		c.Endpoints[i].Order = i
	}
}

func TestWhatOneEndpointFailsAnotherIsAskedForAtOnce(t *testing.T) {
	ok := fake.Answer("ok")
	for name, tc := range map[string]struct {
		fault fake.Step
		kind  llmclient.Kind
		after time.Duration
	}{
		"unavailable":               {fake.Unavailable(), llmclient.ErrServer, 0},
		"throttled":                 {fake.Reply(fake.RetryAfter(time.Minute), fake.Throttled()), llmclient.ErrThrottled, 0},
		"out of quota":              {fake.OutOfQuota(), llmclient.ErrQuota, 0},
		"a wrong key":               {fake.Error(401, "invalid_request_error", "invalid_api_key", "wrong key"), llmclient.ErrAuth, 0},
		"a model it does not have":  {fake.Error(404, "invalid_request_error", "model_not_found", "no such model"), llmclient.ErrNotFound, 0},
		"a connection reset":        {fake.Reset(), llmclient.ErrNetwork, 0},
		"an empty answer":           {fake.Done(), llmclient.ErrEmpty, 0},
		"half an answer":            {fake.Reply(fake.Text("half"), fake.Cut()), llmclient.ErrIncomplete, 0},
		"a web page":                {fake.HTML(), llmclient.ErrMalformed, 0},
		"an error inside a 200":     {fake.ErrorInside(fake.ErrorOpenAI, 500, "broken"), llmclient.ErrServer, 0},
		"it answers nothing at all": {fake.Hang(), llmclient.ErrTimeout, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			srvs := says(tc.fault, ok)
			if tc.after > 0 {
				srvs[0].Models = fake.Always(fake.Hang())
			}
			inRealm(t, srvs, inOrder, func(t *testing.T, r *realm) {
				resp, err := r.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				r.elapsed(tc.after)
				assert.Equal(t, "ok", resp.Message.Content)
				assert.Equal(t, "b", resp.Endpoint, "the answer says who gave it")
				assert.Equal(t, []int{1, 1}, r.asked())
				failed := r.ofKind(llmclient.EventFailed)
				require.Len(t, failed, 1)
				require.ErrorIs(t, failed[0].Err, tc.kind)
				assert.Equal(t, "a", failed[0].Endpoint)
			})
		})
	}
}

func TestWhatIsWrongWithARequestIsWrongEverywhere(t *testing.T) {
	for name, tc := range map[string]struct {
		reply fake.Step
		kind  llmclient.Kind
	}{
		"refused":  {fake.Error(400, "invalid_request_error", "", "temperature must be below 2"), llmclient.ErrRequest},
		"too long": {fake.Error(400, "invalid_request_error", "context_length_exceeded", "too long"), llmclient.ErrContextLength},
		"cut by a token limit": {fake.Reply(fake.ToolDelta(0, "c1", "write", `{"a":`), fake.End("length")),
			llmclient.ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			inRealm(t, says(tc.reply, fake.Answer("ok")), inOrder, func(t *testing.T, r *realm) {
				_, err := r.client.Chat(t.Context(), hello())
				e := failure(t, err, tc.kind)
				assert.Equal(t, "a", e.Endpoint)
				assert.Equal(t, []int{1, 0}, r.asked())
			})
		})
	}
}

func TestWhenAllEndpointsFailTheErrorTellsOfEach(t *testing.T) {
	inRealm(t, says(fake.Unavailable(), fake.Error(500, "", "", "b is broken")), inOrder, func(t *testing.T, r *realm) {
		_, err := r.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrServer)
		assert.Equal(t, []int{3, 2}, r.asked(), "four attempts, of which the first is at both")
		var at []string
		for _, a := range e.Attempts {
			at = append(at, a.Endpoint)
		}
		assert.Equal(t, []string{"a", "b", "a", "b", "a"}, at)
		assert.Contains(t, err.Error(), "b is broken")
		r.elapsed(1500 * time.Millisecond) // each has its own backoff: 500 ms, then a second
	})
}

func TestAStreamIsNotTakenOverOnceItHasOutput(t *testing.T) {
	half := fake.Reply(fake.Text("half"), fake.Cut())
	inRealm(t, says(half, fake.Answer("ok")), inOrder, func(t *testing.T, r *realm) {
		_, err := r.client.Stream(t.Context(), hello()).Response()
		e := failure(t, err, llmclient.ErrIncomplete)
		require.NotNil(t, e.Partial)
		assert.Equal(t, "half", e.Partial.Message.Content)
		assert.Equal(t, "a", e.Partial.Endpoint)
		assert.Equal(t, []int{1, 0}, r.asked())
	})
	inRealm(t, says(fake.Unavailable(), fake.Answer("ok")), inOrder, func(t *testing.T, r *realm) {
		resp, err := r.client.Stream(t.Context(), hello()).Response()
		require.NoError(t, err)
		assert.Equal(t, "b", resp.Endpoint)
	})
}

func TestAConversationStaysWhereItsCacheIs(t *testing.T) {
	ok := fake.Answer("ok")
	inRealm(t, says(ok, ok, ok), nil, func(t *testing.T, r *realm) {
		used := make(map[string]int)
		for i := range 30 {
			req := &chat.Request{Messages: []chat.Message{chat.System("the same for all"), chat.User(fmt.Sprint("task ", i))}}
			home := ""
			for range 6 {
				resp, err := r.client.Chat(t.Context(), req)
				require.NoError(t, err)
				if home == "" {
					home = resp.Endpoint
					used[home]++
				}
				require.Equal(t, home, resp.Endpoint)
				req.Messages = append(req.Messages, resp.Message, chat.User("go on"))
			}
		}
		assert.Len(t, used, 3, "the conversations are spread: %v", used)
	})
}

func TestAConversationComesBackToItsCacheAfterAShortPauseOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		pause time.Duration
		then  string
	}{
		"2 s are waited for":   {2 * time.Second, "a"},
		"3 s are not":          {3 * time.Second, "b"},
		"a minute neither, of": {time.Minute, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			a := script(fake.Answer("ok"), fake.Reply(fake.RetryAfter(tc.pause), fake.Throttled()), fake.Answer("ok"))
			inRealm(t, []fake.Config{a, {Script: fake.Always(fake.Answer("ok"))}}, inOrder, func(t *testing.T, r *realm) {
				_, err := r.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				// Another caller is throttled, and served elsewhere.
				resp, err := r.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User("another")}})
				require.NoError(t, err)
				require.Equal(t, "b", resp.Endpoint)
				req := hello()
				req.Messages = append(req.Messages, chat.Message{Role: "assistant", Content: "ok"}, chat.User("go on"))
				resp, err = r.client.Chat(t.Context(), req)
				require.NoError(t, err)
				assert.Equal(t, tc.then, resp.Endpoint)
			})
		})
	}
}

func TestCallsAreSharedByWeight(t *testing.T) {
	ok := fake.Answer("ok")
	inRealm(t, says(ok, ok), func(c *llmclient.Config) {
		c.Endpoints[0].Weight, c.Endpoints[1].Weight = 3, 1
	}, func(t *testing.T, r *realm) {
		for i := range 2000 {
			_, err := r.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User(fmt.Sprint(i))}})
			require.NoError(t, err)
		}
		assert.InDelta(t, 1500, r.asked()[0], 120) // six standard deviations
	})
}

func TestALaterOrderIsAskedOnlyInNeed(t *testing.T) {
	ok := fake.Answer("ok")
	inRealm(t, says(ok, ok), inOrder, func(t *testing.T, r *realm) {
		r.callers(t, 50)
		assert.Equal(t, []int{50, 0}, r.asked())
		r.srvs[0].SetNet(fake.NetFault{Kind: fake.Refused})
		r.srvs[0].CloseConns()
		r.callers(t, 50)
		assert.Equal(t, 50, r.asked()[1])
		assert.LessOrEqual(t, time.Since(r.start), 1500*time.Millisecond)
	})
}

func TestARefusedKeyIsNotTriedAgainForAMinute(t *testing.T) {
	wrong := fake.Error(401, "invalid_request_error", "invalid_api_key", "wrong key")
	inRealm(t, says(wrong, fake.Answer("ok")), inOrder, func(t *testing.T, r *realm) {
		for range 10 {
			_, err := r.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		assert.Equal(t, []int{1, 10}, r.asked())
		time.Sleep(time.Minute)
		_, err := r.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User("another")}})
		require.NoError(t, err)
		assert.Equal(t, []int{2, 11}, r.asked())
	})
}

func TestAnotherModelIsNotHeldAgainstAnEndpoint(t *testing.T) {
	lacks := fake.Model("large", fake.Always(fake.Error(404, "", "model_not_found", "no such model")))
	srv := fake.Config{Script: func(q *fake.Request) fake.Step {
		if q.Chat.Model == "large" {
			return lacks(q)
		}
		return fake.Answer("ok")
	}}
	inRealm(t, append([]fake.Config{srv}, says(fake.Answer("ok"))...), inOrder, func(t *testing.T, r *realm) {
		large := hello()
		large.Model = "large"
		for range 3 {
			resp, err := r.client.Chat(t.Context(), large)
			require.NoError(t, err)
			assert.Equal(t, "b", resp.Endpoint)
		}
		resp, err := r.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User("another")}})
		require.NoError(t, err)
		assert.Equal(t, "a", resp.Endpoint)
		assert.Equal(t, []int{2, 3}, r.asked())
	})
}

func TestWithAllShut(t *testing.T) {
	down := func(c *llmclient.Config) {
		inOrder(c)
		c.Endpoints[1].Breaker = &breaker.Config{Failures: 1, Cooldown: 20 * time.Second}
		c.Breaker = breaker.Config{Failures: 1, Cooldown: 10 * time.Second}
		c.Retry.Attempts = 1
	}
	servers := func() []fake.Config {
		return []fake.Config{
			script(fake.Unavailable(), fake.Answer("a again")),
			script(fake.Unavailable(), fake.Answer("b again")),
		}
	}
	for name, tc := range map[string]struct {
		when  llmclient.WhenOpen
		after time.Duration
		from  string
	}{
		"calls wait for the first":     {llmclient.Wait, 10 * time.Second, "a"},
		"or fail":                      {llmclient.FailFast, 0, ""},
		"or ask the least bad at once": {llmclient.LeastBad, 0, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			inRealm(t, servers(), func(c *llmclient.Config) { down(c); c.WhenOpen = tc.when }, func(t *testing.T, r *realm) {
				for range 2 { // one at each
					_, err := r.client.Chat(t.Context(), hello())
					failure(t, err, llmclient.ErrServer)
				}
				r.elapsed(0)
				resp, err := r.client.Chat(t.Context(), hello())
				r.elapsed(tc.after)
				if tc.from == "" {
					e := failure(t, err, llmclient.ErrOpen)
					require.ErrorIs(t, err, breaker.ErrOpen)
					assert.Equal(t, 10*time.Second, e.RetryAfter())
					assert.Equal(t, []int{1, 1}, r.asked())
					return
				}
				require.NoError(t, err)
				assert.Equal(t, tc.from, resp.Endpoint)
			})
		})
	}
}

func TestWaitersGoToWhoComesBackFirst(t *testing.T) {
	// Both are down. A is back later than its breaker hopes, b earlier than a.
	back := func(at time.Duration, name string) fake.Config {
		return fake.Config{Script: func(q *fake.Request) fake.Step {
			if q.Since < at {
				return fake.Unavailable()
			}
			return fake.Answer(name)
		}}
	}
	inRealm(t, []fake.Config{back(10*time.Minute, "a"), back(30*time.Second, "b")}, inOrder, func(t *testing.T, r *realm) {
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				resp, err := r.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User(fmt.Sprint(i))}})
				if assert.NoError(t, err) {
					assert.Equal(t, "b", resp.Endpoint)
				}
			})
		}
		wg.Wait()
		assert.Less(t, time.Since(r.start), 75*time.Second)
		asked := r.asked()
		assert.Less(t, asked[0], 65, "a was not stormed")
		assert.Less(t, asked[1], 90, "nor was b")
	})
}

func TestCallsInAQueueMoveWhenTheirEndpointPauses(t *testing.T) {
	slow := fake.Reply(fake.Pause(time.Second), fake.RetryAfter(time.Minute), fake.Throttled())
	inRealm(t, says(slow, fake.Answer("ok")), func(c *llmclient.Config) {
		inOrder(c)
		c.Pacer.MaxInFlight = 1
	}, func(t *testing.T, r *realm) {
		r.callers(t, 20)
		r.elapsed(time.Second)
		assert.Equal(t, []int{1, 20}, r.asked())
	})
}

func TestAnEndpointThatIsBackIsUsedAgain(t *testing.T) {
	a := fake.Config{
		Script: func(q *fake.Request) fake.Step {
			if q.Since < 5*time.Minute {
				return fake.Hang()
			}
			return fake.Answer("a")
		},
		Models: func(q *fake.Request) fake.Step {
			if q.Since < 5*time.Minute {
				return fake.Hang()
			}
			return fake.ModelList()
		},
	}
	inRealm(t, []fake.Config{a, {Script: fake.Always(fake.Answer("b"))}}, inOrder, func(t *testing.T, r *realm) {
		var backAt time.Duration
		held := 0
		for n := 0; backAt == 0 && n < 1000; n++ {
			began := time.Now()
			resp, err := r.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User(fmt.Sprint(n))}})
			require.NoError(t, err)
			if time.Since(began) > time.Second {
				held++
			}
			if resp.Endpoint == "a" {
				backAt = time.Since(r.start)
			}
			time.Sleep(time.Second)
		}
		// One found out, and one tried all the same after three minutes: it might
		// have been the probes alone that were not answered.
		assert.Equal(t, 2, held, "calls that were held up")
		assert.Greater(t, backAt, 5*time.Minute)
		assert.Less(t, backAt, 5*time.Minute+15*time.Second)
	})
}

func TestEachEndpointGetsItsOwnKeyAndModel(t *testing.T) {
	inRealm(t, says(fake.Unavailable(), fake.Answer("ok")), func(c *llmclient.Config) {
		inOrder(c)
		c.Endpoints[0].APIKey, c.Endpoints[1].APIKey = "key-of-a", "key-of-b"
		c.Endpoints[1].Model = "vendor/test-model"
		c.Endpoints[1].Header = http.Header{"X-Title": {"b only"}}
	}, func(t *testing.T, r *realm) {
		_, err := r.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		a, b := r.srvs[0].Requests()[0], r.srvs[1].Requests()[0]
		assert.Equal(t, "Bearer key-of-a", a.Header.Get("Authorization"))
		assert.Equal(t, "Bearer key-of-b", b.Header.Get("Authorization"))
		assert.Equal(t, "test-model", a.Chat.Model)
		assert.Equal(t, "vendor/test-model", b.Chat.Model)
		assert.Empty(t, a.Header.Get("X-Title"))
		printed := format(r.client, r.client.Endpoints(), r.events, r.client.String())
		assert.NotContains(t, printed, "key-of-")
		assert.NotContains(t, format(llmclient.Config{Endpoints: []llmclient.Endpoint{{APIKey: "key-of-a"}}},
			llmclient.Endpoint{APIKey: "key-of-a"}, &llmclient.Endpoint{APIKey: "key-of-a"}), "key-of-")
	})
}

func TestTheQuirksOfOneEndpointAreNotTheOthers(t *testing.T) {
	a := fake.Config{Script: fake.NoStreams(func(q *fake.Request) fake.Step {
		if q.Ordinal == 4 {
			return fake.Unavailable()
		}
		return fake.Answer("ok")
	})}
	inRealm(t, []fake.Config{a, {Script: fake.Always(fake.Answer("ok"))}}, inOrder, func(t *testing.T, r *realm) {
		for range 3 {
			_, err := r.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		var streams []bool
		for _, q := range r.srvs[0].Requests() {
			streams = append(streams, q.Stream)
		}
		assert.Equal(t, []bool{true, false, false, false}, streams)
		require.Len(t, r.srvs[1].Requests(), 1)
		assert.True(t, r.srvs[1].Requests()[0].Stream)
	})
}

func TestTheTableTellsAtWhichEndpointACallIs(t *testing.T) {
	inRealm(t, says(fake.Unavailable(), fake.Hang()), inOrder, func(t *testing.T, r *realm) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = r.client.Chat(ctx, hello()) })
		synctest.Wait()
		list := r.client.InFlight()
		require.Len(t, list, 1)
		assert.Equal(t, "b", list[0].Endpoint)
		var b strings.Builder
		require.NoError(t, llmclient.Dump(&b, r.client))
		assert.Contains(t, b.String(), "0 calls in flight to a;")
		assert.Contains(t, b.String(), "1 calls in flight to b;")
		cancel()
		wg.Wait()
	})
}

func TestACallerCanLeaveAnyWaitForSeveralEndpoints(t *testing.T) {
	down := fake.Reply(fake.RetryAfter(time.Minute), fake.Unavailable())
	inRealm(t, says(down, down), func(c *llmclient.Config) { c.Breaker.Failures = 1 }, func(t *testing.T, r *realm) {
		_, err := r.client.Chat(contextWith(t, 7*time.Second), hello())
		require.Error(t, err)
		assert.LessOrEqual(t, time.Since(r.start), 7*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, err = r.client.Chat(ctx, hello())
		failure(t, err, llmclient.ErrCanceled)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

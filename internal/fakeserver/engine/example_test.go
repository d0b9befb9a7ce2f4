package engine_test

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

func ExamplePlay() {
	cfg, err := engine.Setting("overload", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	load := engine.Load{Calls: -1, Until: engine.SettingTime}
	most := 0
	for _, limit := range []int{10, 20, 24} {
		score, err := engine.Play(cfg, load, engine.Fixed(limit))
		if err != nil {
			fmt.Println(err)
			return
		}
		most = max(most, score.Useful)
		fmt.Printf("%d in flight: %.1f\n", limit, float64(score.Useful)/float64(most))
	}
	// Output:
	// 10 in flight: 1.0
	// 20 in flight: 0.6
	// 24 in flight: 0.0
}

func ExampleCore() {
	core, err := engine.NewCore(engine.Config{
		Cost: engine.Cost{Step: 10 * time.Millisecond, PerSequence: -1, PerContext: -1, PerPrompt: time.Millisecond},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	core.Submit(0, engine.Request{Prompt: []engine.Segment{{Key: 1, Tokens: 100}}, Output: 2})
	for at, ok := core.Next(); ok; at, ok = core.Next() {
		for _, o := range core.Advance(at) {
			fmt.Printf("%v: taken %v, %d tokens, end %q\n", o.At, o.Taken, o.Tokens, o.End)
		}
	}
	// Output:
	// 1ms: taken true, 0 tokens, end ""
	// 111ms: taken false, 1 tokens, end ""
	// 121ms: taken false, 1 tokens, end ""
	// 121ms: taken false, 0 tokens, end "stop"
}

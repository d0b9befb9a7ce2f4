package fakeserver

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Habits say which mistakes an [Author] makes, and how often. The zero value
// means none. Values are not changed once made.
type Habits struct{ rates rates[habit] }

// A habit is a mistake that models make.
type habit string

func (h habit) label() string { return string(h) }

// The habits, each a share of an author's rounds, except forget-save, which is
// a share of the authors.
const (
	forgetSave    habit = "forget-save"    // ends with a text in place of save; some until they are forced
	unknownTool   habit = "unknown-tool"   // calls a tool that is not offered
	badArgs       habit = "bad-args"       // sends arguments that are broken or do not fit
	emptyAnswer   habit = "empty"          // answers with nothing
	repeatCall    habit = "repeat"         // repeats its last call, once or twice
	reasoningOnly habit = "reasoning-only" // thinks and does not answer
	lengthCut     habit = "length-cut"     // runs into the token limit in the middle of a call
)

func habitKinds() []habit {
	return []habit{forgetSave, unknownTool, badArgs, emptyAnswer, repeatCall, reasoningOnly, lengthCut}
}

const defaultHabits = "forget-save=0.15,unknown-tool=0.05,bad-args=0.05,empty=0.04,repeat=0.05,reasoning-only=0.03,length-cut=0.02"

// DefaultHabits are all bad habits there are, each now and then.
func DefaultHabits() Habits {
	h, _ := ParseHabits(defaultHabits)
	return h
}

// HabitNames returns the names that [ParseHabits] knows.
func HabitNames() []string { return labels(habitKinds()) }

// ParseHabits reads habits from a list of name=rate. Empty and "none" mean
// none, "default" means [DefaultHabits].
func ParseHabits(spec string) (Habits, error) {
	if strings.TrimSpace(spec) == "default" {
		spec = defaultHabits
	}
	r, err := parseRates("habits", spec, habitKinds(), "", func(string, string) (bool, error) { return false, nil })
	return Habits{r}, err
}

// String returns the habits as [ParseHabits] reads them.
func (h Habits) String() string {
	if out := h.rates.entries(); len(out) > 0 {
		return strings.Join(out, ",")
	}
	return "none"
}

// habit decides whether a bad habit shows in this round. A mistake is not
// made when the author has just been corrected, in the round after another
// one, or when it has no choice.
func (p *part) habit(tool string, asked int) (habit, *rand.Rand) {
	s, rates := p.scene, p.author.Habits.rates
	if asked > 0 || s.choice.Name != "" {
		return "", nil
	}
	if tool == toolSave && s.choice.Mode != "required" && s.failures == 0 {
		luck := luckOf(p.author.Seed, "forget "+p.agent, 0)
		// How many nudges it takes: one for most, more for some.
		need := [...]int{1, 1, 1, 2, 3}[luck.IntN(5)]
		if luck.Float64() < rates.rate(string(forgetSave)) && s.nudges < need {
			return forgetSave, luck
		}
	}
	before, beforeLuck := p.drawn(s.round - 1)
	if before == repeatCall && s.same == 2 && beforeLuck.IntN(2) == 0 && !s.corrected && p.repeatable() {
		return repeatCall, beforeLuck
	}
	if s.corrected || before != "" {
		return "", nil
	}
	h, luck := p.drawn(s.round)
	switch {
	case h == forgetSave: // is drawn above, for the author as a whole
		return "", nil
	case (h == unknownTool || h == badArgs || h == lengthCut) && tool == "":
		return "", nil
	case (h == emptyAnswer || h == reasoningOnly) && s.choice.Mode == "required":
		return "", nil
	case h == repeatCall && !p.repeatable():
		return "", nil
	}
	return h, luck
}

// drawn returns what the dice say for a round.
func (p *part) drawn(round int) (habit, *rand.Rand) {
	if round < 0 {
		return "", nil
	}
	luck := luckOf(p.author.Seed, "habit "+p.agent, round)
	h, _ := p.author.Habits.rates.pick(luck)
	return h, luck
}

// repeatable reports whether repeating the last call does no harm: text that
// is appended twice would stand there twice.
func (p *part) repeatable() bool {
	last := p.scene.last
	return last != nil && (last.Name == toolRead || last.Name == toolWrite) && p.scene.offers(last.Name)
}

// invented returns the name of a tool that does not exist.
func invented(s *scene, luck *rand.Rand) string {
	names := []string{"read_file", "save_article", "publish", "search", "write_file"}
	names = slices.DeleteFunc(names, s.offers)
	if len(names) == 0 {
		return "no_such_tool"
	}
	return names[luck.IntN(len(names))]
}

// spoiled returns arguments that no tool can take.
func spoiled(args string, luck *rand.Rand) string {
	r := []rune(args)
	switch luck.IntN(4) {
	case 0:
		return string(r[:max(len(r)/2, 1)]) // ends too early
	case 1:
		return `{"text": "a\q", "index": "\q"}` // an escape that does not exist
	case 2:
		return `{"index": "the first one", "text": 42}` // wrong types
	default:
		return `["` + strconv.Itoa(len(r)) + `"]` // no object
	}
}

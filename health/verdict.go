package health

import (
	"fmt"
	"time"
)

// A Confidence is how sure a verdict is.
type Confidence uint8

// The confidences.
const (
	ConfidenceLow Confidence = iota + 1
	ConfidenceMedium
	ConfidenceHigh
)

func (c Confidence) String() string {
	switch c {
	case ConfidenceLow:
		return "low"
	case ConfidenceMedium:
		return "medium"
	case ConfidenceHigh:
		return "high"
	}
	return "none"
}

// MarshalText writes the confidence as a word.
func (c Confidence) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// A Fact is a piece of evidence.
type Fact struct {
	At   time.Time `json:"at,omitzero"`  // of the newest number in it
	Of   string    `json:"of,omitempty"` // the target; empty if the client knows it
	Text string    `json:"text"`
}

func (f Fact) String() string {
	s := f.Text
	if f.Of != "" {
		s = f.Of + ": " + s
	}
	if !f.At.IsZero() {
		s = f.At.Format(time.TimeOnly) + " " + s
	}
	return s
}

// An Exclusion is a state that was ruled out, and the fact that rules it out.
type Exclusion struct {
	State State  `json:"state"`
	By    string `json:"by"`
}

// A Verdict is the most likely state of a service, and the evidence for it.
type Verdict struct {
	State      State      `json:"state"`
	Confidence Confidence `json:"confidence"`
	At         time.Time  `json:"at"`

	// Since is the earliest time from which the facts show this state.
	Since time.Time `json:"since,omitzero"`

	Evidence []Fact      `json:"evidence"`
	RuledOut []Exclusion `json:"ruled_out,omitempty"`

	// Do is what to do, and WouldTell which facts would make the verdict surer.
	Do        []string `json:"do,omitempty"`
	WouldTell []string `json:"would_tell,omitempty"`

	Uniform Uniformity `json:"uniform"`

	sheet sheet
}

// Line returns the verdict in one line, with its first piece of evidence.
func (v Verdict) Line() string {
	if v.State == "" {
		return "nothing is known yet"
	}
	s := string(v.State)
	if !v.Since.IsZero() && v.State.Fault() {
		s += fmt.Sprintf(" since %s", v.Since.Format(time.TimeOnly))
	}
	s += fmt.Sprintf(" (%s confidence)", v.Confidence)
	if len(v.Evidence) > 0 {
		s += ": " + v.Evidence[0].String()
	}
	return s
}

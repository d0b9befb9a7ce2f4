package main

import (
	"bytes"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFlagsAndTheirDefaults(t *testing.T) {
	o, err := parseOptions(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, &options{agents: 45, out: "./bible", keyEnv: "OPENAI_API_KEY", seed: 1, faults: defaultFaults(), habits: defaultHabits()}, o)

	t.Setenv("SOME_KEY", "sk-secret")
	o, err = parseOptions([]string{"-base-url", "http://h:1/v1", "a.json", "-api-key-env=SOME_KEY", "-model", "m",
		"-agents", "3", "-articles", "4", "-first-output", "1m", "-gap", "-1s", "-call", "5m", "-deadline", "1h",
		"-rpm", "60", "-max-in-flight", "2", "-report", "-", "-out", "o"}, nil)
	require.NoError(t, err, "flags may follow the session")
	assert.Equal(t, &options{
		session: "a.json", baseURL: "http://h:1/v1", apiKey: "sk-secret", keyEnv: "SOME_KEY", model: "m", agents: 3, articles: 4, out: "o",
		seed: 1, faults: defaultFaults(), habits: defaultHabits(), firstOutput: time.Minute, gap: -time.Second,
		call: 5 * time.Minute, deadline: time.Hour, rpm: 60, maxInFlight: 2, report: "-",
	}, o)

	o, err = parseOptions([]string{"-naive"}, nil)
	require.NoError(t, err)
	assert.Equal(t, "hang=1", o.faults, "all requests hang unless told otherwise")
	o, err = parseOptions([]string{"-naive", "-faults", "none"}, nil)
	require.NoError(t, err)
	assert.Equal(t, "none", o.faults)
}

func TestKeyIsReadForANamedEndpointOnly(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	o, err := parseOptions(nil, nil)
	require.NoError(t, err)
	assert.Empty(t, o.apiKey)
	o, err = parseOptions([]string{"-base-url", "https://h/v1"}, nil)
	require.NoError(t, err)
	assert.Equal(t, "sk-secret", o.apiKey)
}

func TestUsageErrorsNameTheFlag(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":            {[]string{"-colour"}, "flag provided but not defined: -colour"},
		"an unknown incident":     {[]string{"-incident", "flood"}, `-incident is "flood", want one of abort-storm, `},
		"an incident and faults":  {[]string{"-incident", "overload", "-faults", "none"}, "-faults are those of the embedded author, and -incident is played on an engine; give one of them"},
		"an incident elsewhere":   {[]string{"-incident", "overload", "-base-url", "http://h/v1"}, "-incident is for the embedded server, and -base-url names another"},
		"servers of nobody":       {[]string{"-servers", "http://h"}, "-servers needs -base-url: the embedded server stands alone"},
		"naive, and asking":       {[]string{"-naive", "-incident", "overload"}, "-naive asks no server how it is, so -incident, -servers and -compare are not for it"},
		"no number":               {[]string{"-agents", "many"}, `invalid value "many" for flag -agents: want a whole number`},
		"no agents":               {[]string{"-agents", "0"}, "-agents is 0, want 1 or more"},
		"negative articles":       {[]string{"-articles", "-1"}, "-articles is -1, want 0 or more"},
		"negative rpm":            {[]string{"-rpm", "-1"}, "-rpm is -1, want 0 or more"},
		"negative in flight":      {[]string{"-max-in-flight", "-2"}, "-max-in-flight is -2, want 0 or more"},
		"no duration":             {[]string{"-gap", "7"}, `invalid value "7" for flag -gap: want a duration with its unit, such as 90s or 10m`},
		"no duration at all":      {[]string{"-call=abc"}, `invalid value "abc" for flag -call: want a duration with its unit`},
		"a negative seed":         {[]string{"-seed=-1"}, `invalid value "-1" for flag -seed: want a whole number, 0 or more`},
		"nothing to compare":      {[]string{"-compare", "x"}, "-compare needs -base-url or -incident: the embedded author has no settings"},
		"no folder":               {[]string{"-out", ""}, "-out is empty"},
		"two sessions":            {[]string{"a", "-agents", "1", "b"}, "got 2 sessions (a, b), want at most one"},
		"empty session":           {[]string{""}, "SESSION is empty"},
		"no URL":                  {[]string{"-base-url", "localhost:8000"}, `-base-url is "localhost:8000", want one such as http://`},
		"empty URL":               {[]string{"-base-url", ""}, `-base-url is "", want one such as`},
		"faults elsewhere":        {[]string{"-base-url", "http://h/v1", "-faults", "none"}, "-faults is for the embedded server"},
		"habits elsewhere":        {[]string{"-base-url", "http://h/v1", "-habits", "none"}, "-habits is for the embedded server"},
		"seed elsewhere":          {[]string{"-base-url", "http://h/v1", "-seed", "2"}, "-seed is for the embedded server"},
		"key for nobody":          {[]string{"-api-key-env", "X"}, "-api-key-env needs -base-url"},
		"key that is not there":   {[]string{"-base-url", "http://h/v1", "-api-key-env", "NEVER_SET_X"}, "NEVER_SET_X, which is not set"},
		"unknown fault":           {[]string{"-faults", "hang=0.1,gremlins=1"}, `"gremlins" is not known`},
		"unknown habit":           {[]string{"-habits", "yawn=1"}, `"yawn" is not known`},
		"credentials in the URL":  {[]string{"-base-url", "ftp://me:hunter2@h/v1?key=hunter2"}, "-base-url is"},
		"garbage in place of URL": {[]string{"-base-url", "http://[::1"}, "-base-url is"},
	} {
		_, err := parseOptions(c.args, nil)
		if assert.ErrorContains(t, err, c.want, name) {
			assert.NotContains(t, err.Error(), "\n", name)
			assert.NotContains(t, err.Error(), "hunter2", name)
		}
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	var out bytes.Buffer
	_, err := parseOptions([]string{"-h"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, name := range []string{"base-url", "model", "api-key-env", "agents", "articles", "out", "faults", "habits",
		"seed", "first-output", "gap", "call", "deadline", "rpm", "max-in-flight", "report", "naive"} {
		assert.Contains(t, out.String(), "\n  -"+name, name)
	}
}

func TestAnIncidentEndsUnlessToldOtherwise(t *testing.T) {
	for want, args := range map[time.Duration][]string{
		2 * time.Minute: {"-incident", "overload"},
		time.Hour:       {"-incident", "overload", "-deadline", "1h"},
		0:               {},
	} {
		o, err := parseOptions(args, nil)
		require.NoError(t, err)
		assert.Equal(t, want, o.deadline, args)
	}
}

func TestTheCommandThatGoesOn(t *testing.T) {
	for want, args := range map[string][]string{
		"sessionbible -resume": {},
		"sessionbible -resume -out 'my book' -articles 3 'a b.json'": {"-out", "my book", "-articles", "3", "-seed", "4", "a b.json"},
		"sessionbible -resume -base-url http://h/v1 -model m":        {"-base-url", "http://h/v1", "-model", "m"},
		"sessionbible -resume -out 'it'\\''s'":                       {"-out", "it's", "-incident", "overload"},
	} {
		o, err := parseOptions(args, nil)
		require.NoError(t, err)
		assert.Equal(t, want, o.goOn())
	}
}

func TestHideKey(t *testing.T) {
	for in, want := range map[string]string{
		"https://h:1/v1":                  "https://h:1/v1",
		"https://user:pw@h/v1?key=k#frag": "https://xxxxx@h/v1",
		"http://[::1":                     "(unreadable)",
	} {
		assert.Equal(t, want, hideKey(in))
	}
}

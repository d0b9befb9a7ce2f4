package llmclient

import (
	"net/http"
	"strings"
)

// quota reports whether what the account may use is used up, which no wait
// within a call mends: it has no money, or a bound of its owner is reached, or
// that of a day or a week.
func (r *refusal) quota() bool {
	switch s := r.status; {
	case s > http.StatusBadGateway:
		return isAny(r.own, moneyNames...) // it is in trouble, and may speak of many things
	case containsAny(r.words, minuteWords...) && !containsAny(r.words, "free allocated quota"):
		return false
	}
	switch {
	case isAny(r.names, moneyNames...), containsAny(r.words, moneyWords...):
		return true
	case r.status < 500 && strings.Contains(r.body, "enforced_spend_limit_reached"):
		return true
	case strings.Contains(r.body, "quotaId") && strings.Contains(r.body, "PerDay"):
		// Google tells to come back in seconds all the same.
		return true
	case r.named:
		return false // it comes back, and says when
	}
	return isAny(r.names, periodNames...) || containsAny(r.words, periodWords...)
}

var (
	// minuteWords are those of throttles that call themselves a quota:
	// DashScope's of a minute has OpenAI's code and words for an empty account,
	// and tells them apart by a link.
	minuteWords = []string{"error-code#token-limit", "allocated quota exceeded"}

	// moneyNames and moneyWords: nothing is left until somebody pays, or raises
	// a bound.
	moneyNames = []string{
		"insufficientquota", "insufficientbalance", "insufficientcredits", "insufficientfunds", "notenoughbalance",
		"billing", "billingnotactive", "billinghardlimitreached", "exceededcurrentquota", "creditbalanceexhausted",
		"organizationspendlimitexceeded", "projectspendlimitexceeded", "organizationusagelimitexceeded",
		"budgetexceeded", "arrearage", "accountoverdue", "setlimitexceeded", "servicequotaexceeded", "freetieronly",
		"allocationquotafreetieronly", "tokenquotareached", "exceedtokenquotalimit", "insufficientcreditlimit",
	}
	moneyWords = []string{
		"insufficient balance", "balance is insufficient", "not enough balance", "credit balance is too low",
		"insufficient credit", "no credits remaining", "used all available credits", "have any credits", "out of credits",
		"requires more credits", "monthly included credits", "budget has been exceeded", "key limit exceeded",
		"overdue balance", "past due", "account is in good standing", "account is not active",
		"monthly spending limit", "monthly spend limit", "spending limit reached", "spending limit exceeded",
		"reached your spending limit", "credit card on file", "free tier of the model has been exhausted",
		"hard limit has been reached", "have a free quota tier", "limit: 0, model",
		"余额不足", "欠费",
	}

	// periodNames and periodWords: used up for hours or days, unless it is said
	// for how long.
	periodNames = []string{"quotaexceeded", "usagelimitreached", "usagelimitexceeded"}
	periodWords = []string{
		"exceeded your current quota", "free allocated quota exceeded", "daily free allocation", "usage limit reached",
		"usage limit has been reached", "specified api usage limits", "session usage limit", "hourly usage limit",
		"daily usage limit", "weekly usage limit", "monthly usage limit", "tokens per day, ", "(tpd)", "(rpd)", "-per-day",
		"api calls / month", "使用上限",
	}
)

package resources

import "math"

// Cost is the price of the nodes of a fleet, by the prices of its providers. It is zero if no provider has prices. Amounts in
// different currencies are never added.
type Cost struct {
	Totals       []CostLine      `json:"totals,omitempty" doc:"By currency."`
	Providers    []CostLine      `json:"providers,omitempty" doc:"By provider."`
	Labels       []CostLine      `json:"labels,omitempty" doc:"By provider and label."`
	WithoutPrice []UnpricedNodes `json:"without_price,omitempty" doc:"Nodes and labels that the amounts do not contain, because no price of them is known."`
	Unlimited    []string        `json:"unlimited_pools,omitempty" doc:"Pools with a price and without a known limit, as provider/pool. The amounts at the limits do not contain them."`
}

// IsZero reports whether no provider has prices.
func (c Cost) IsZero() bool {
	return len(c.Totals)+len(c.WithoutPrice)+len(c.Unlimited) == 0
}

// CostRates are the amounts of one currency.
type CostRates struct {
	MinReady Rate `json:"min_ready" doc:"With min_ready nodes of each label, as npctl launches them in an empty fleet."`
	Now      Rate `json:"now" doc:"Of the existing servers of nodes."`
	Limits   Rate `json:"limits" doc:"At most, with the limits of pools and the quotas."`
}

// CostLine is a part of a cost.
type CostLine struct {
	Provider string   `json:"provider,omitempty"`
	Label    string   `json:"label,omitempty"`
	Currency string   `json:"currency,omitempty"`
	Pools    []string `json:"pools,omitempty" doc:"Of a label: the pools of its min_ready nodes."`
	CostRates
}

// Rate is an amount of money over time.
type Rate struct {
	Hour  float64 `json:"per_hour" doc:"For one hour, to a millionth."`
	Month float64 `json:"per_30_days" doc:"For 720 hours."`
}

// UnpricedNodes are nodes without a known price.
type UnpricedNodes struct {
	Provider string `json:"provider"`
	Label    string `json:"label"`
	Static   bool   `json:"static,omitempty" doc:"Whether they are static nodes."`
	MinReady int64  `json:"min_ready" doc:"Number of nodes for min_ready."`
	Now      int64  `json:"now" doc:"Number of existing nodes."`
}

// Money is an amount for one hour in millionths, so that sums are exact up to a billion. It has no more than MoneyLimit.
type Money int64

// MoneyLimit is the largest amount.
const MoneyLimit Money = 1e18

// MoneyOf returns the amount for n nodes with a price, which may be infinite.
func MoneyOf(price, n float64) Money {
	return Money(math.Round(min(price*1e6*n, float64(MoneyLimit))))
}

// Plus adds two amounts.
func (m Money) Plus(more Money) Money { return min(m, MoneyLimit-more) + more }

// Times multiplies an amount by a number that is not negative.
func (m Money) Times(n int64) Money {
	if n == 0 {
		return 0
	}
	return min(m, MoneyLimit/Money(n)) * Money(n)
}

// Rate returns the amount for people and programs.
func (m Money) Rate() Rate {
	return Rate{Hour: float64(m) / 1e6, Month: math.Round(float64(m)*720) / 1e6}
}

// Money returns the amount for one hour.
func (r Rate) Money() Money { return Money(math.Round(r.Hour * 1e6)) }

// Minus returns the difference of two rates.
func (r Rate) Minus(less Rate) Rate { return (r.Money() - less.Money()).Rate() }

// Minus returns the differences of all amounts.
func (c CostRates) Minus(less CostRates) CostRates {
	return CostRates{c.MinReady.Minus(less.MinReady), c.Now.Minus(less.Now), c.Limits.Minus(less.Limits)}
}

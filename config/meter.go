package config

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// meter limits what the `for` expressions of a configuration may cost together, which nothing else bounds: they multiply
// where they stand inside each other. It counts the elements, the bytes of what is made of them, and the time. An expression
// that goes beyond a limit is left by a panic, since HCL would go on with the next element after an error.
type meter struct {
	elements int
	bytes    int
	left     time.Duration   // for evaluating expressions
	until    time.Time       // when it is over for the one that is being evaluated
	stopped  <-chan struct{} // closed when the evaluation is to end; may be nil

	fault atomic.Pointer[string] // why no expression is evaluated any more
}

func newMeter(stopped <-chan struct{}) *meter {
	return &meter{elements: maxElements, bytes: maxMadeBytes, left: maxEvaluation, stopped: stopped}
}

// exhausted is the panic that leaves an expression. Functions such as try recover from it; fault stays.
type exhausted struct{}

// end leaves the expression that is being evaluated.
func (m *meter) end(fault string) {
	m.fault.CompareAndSwap(nil, &fault)
	panic(exhausted{})
}

// tick counts an element.
func (m *meter) tick() {
	if m.fault.Load() != nil {
		panic(exhausted{})
	}
	select {
	case <-m.stopped:
		m.end("It was stopped by a signal.")
	default:
	}
	if m.elements--; m.elements < 0 {
		m.end(fmt.Sprintf("The for expressions of the configuration make more than %d elements.", maxElements))
	}
	if time.Now().After(m.until) {
		m.end(fmt.Sprintf("It has not ended within %s.", maxEvaluation))
	}
}

// weigh counts what is made of an element.
func (m *meter) weigh(value cty.Value) {
	scale := scale{left: m.bytes}
	scale.weigh(value)
	if m.bytes = scale.left; m.bytes < 0 {
		m.end(fmt.Sprintf("The for expressions of the configuration make more than %s of values.", sizeText(maxMadeBytes)))
	}
}

// value evaluates an expression. After a limit was exceeded, which is reported once, no expression has a value.
func (m *meter) value(expr hcl.Expression, ctx *hcl.EvalContext) (value cty.Value, diags hcl.Diagnostics) {
	if m.fault.Load() != nil {
		return cty.DynamicVal, nil
	}
	began := time.Now()
	m.until = began.Add(m.left)
	defer func() {
		m.left -= time.Since(began)
		if fault := recover(); fault != nil && fault != (exhausted{}) {
			panic(fault)
		}
		if fault := m.fault.Load(); fault != nil { // also where a function has recovered
			value, diags = cty.DynamicVal, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Evaluation ended", Detail: *fault, Subject: expr.Range().Ptr()}}
		}
	}()
	return expr.Value(ctx)
}

// attach makes the `for` expressions below a node count. It has to be called before they are evaluated.
func (m *meter) attach(node hclsyntax.Node) {
	_ = hclsyntax.Walk(node, attacher{m}) // it makes no diagnostics
}

type attacher struct{ *meter }

// Enter implements hclsyntax.Walker.
func (attacher) Enter(hclsyntax.Node) hcl.Diagnostics { return nil }

// Exit implements hclsyntax.Walker. What is inside the expression was seen by then, so that it can be replaced.
func (a attacher) Exit(node hclsyntax.Node) hcl.Diagnostics {
	loop, ok := node.(*hclsyntax.ForExpr)
	if !ok {
		return nil
	}
	if loop.CondExpr != nil {
		loop.CondExpr = metered(loop.CondExpr, a.meter, true)
	}
	if loop.KeyExpr != nil {
		loop.KeyExpr = metered(loop.KeyExpr, a.meter, false)
	}
	loop.ValExpr = metered(loop.ValExpr, a.meter, loop.CondExpr == nil)
	return nil
}

// meteredExpr is an expression that is evaluated for each element. It is made as parentheses are, in which HCL finds the
// references of what is inside.
type meteredExpr struct {
	hclsyntax.ParenthesesExpr
	meter *meter
	first bool // of those that are evaluated for an element
}

func metered(expr hclsyntax.Expression, m *meter, first bool) *meteredExpr {
	return &meteredExpr{hclsyntax.ParenthesesExpr{Expression: expr, SrcRange: expr.Range()}, m, first}
}

// Value implements hcl.Expression.
func (e *meteredExpr) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if e.first {
		e.meter.tick()
	}
	value, diags := e.Expression.Value(ctx)
	e.meter.weigh(value)
	return value, diags
}

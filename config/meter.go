package config

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	plaintext "github.com/npctl/npctl/internal/text"
)

// meter limits the total cost of the `for` expressions of a configuration, which multiply when nested. It counts the
// elements, the bytes of their values, and the time. An expression that exceeds a limit panics, because HCL continues
// with the next element after an error.
type meter struct {
	elements int
	bytes    int
	left     time.Duration   // remaining time for evaluation
	until    time.Time       // deadline of the current expression
	stopped  <-chan struct{} // closed when the evaluation must end; may be nil

	fault atomic.Pointer[string] // why evaluation has ended
}

func newMeter(stopped <-chan struct{}) *meter {
	return &meter{elements: maxElements, bytes: maxMadeBytes, left: maxEvaluation, stopped: stopped}
}

// evaluationLimitPanic ends the evaluation of an expression. Functions such as try recover from it, but fault remains
// set.
type evaluationLimitPanic struct{}

// end aborts the current expression.
func (m *meter) end(fault string) {
	m.fault.CompareAndSwap(nil, &fault)
	panic(evaluationLimitPanic{})
}

// tick counts one element.
func (m *meter) tick() {
	if m.fault.Load() != nil {
		panic(evaluationLimitPanic{})
	}
	select {
	case <-m.stopped:
		m.end("A signal stopped the evaluation.")
	default:
	}
	if m.elements--; m.elements < 0 {
		m.end(fmt.Sprintf("The for expressions of the configuration produce more than %d elements.", maxElements))
	}
	if time.Now().After(m.until) {
		m.end(fmt.Sprintf("The evaluation took longer than %s.", maxEvaluation))
	}
}

// addSize counts the size of a value that an element produced.
func (m *meter) addSize(value cty.Value) {
	scale := sizeCounter{left: m.bytes}
	scale.add(value)
	if m.bytes = scale.left; m.bytes < 0 {
		m.end(fmt.Sprintf("The for expressions of the configuration produce more than %s of values.", plaintext.Bytes(maxMadeBytes)))
	}
}

// value evaluates an expression. After a limit was exceeded, no expression has a value; the error is reported once.
func (m *meter) value(expr hcl.Expression, ctx *hcl.EvalContext) (value cty.Value, diags hcl.Diagnostics) {
	if m.fault.Load() != nil {
		return cty.DynamicVal, nil
	}
	began := time.Now()
	m.until = began.Add(m.left)
	defer func() {
		m.left -= time.Since(began)
		if fault := recover(); fault != nil && fault != (evaluationLimitPanic{}) {
			panic(fault)
		}
		if fault := m.fault.Load(); fault != nil { // also after a function recovered
			value, diags = cty.DynamicVal, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Evaluation ended", Detail: *fault, Subject: expr.Range().Ptr()}}
		}
	}()
	return expr.Value(ctx)
}

// attach makes the meter count the `for` expressions below a node. Call it before they are evaluated.
func (m *meter) attach(node hclsyntax.Node) {
	_ = hclsyntax.Walk(node, attacher{m}) // the walk returns no diagnostics
}

type attacher struct{ *meter }

// Enter implements hclsyntax.Walker.
func (attacher) Enter(hclsyntax.Node) hcl.Diagnostics { return nil }

// Exit implements hclsyntax.Walker. The walk has visited the children by then, so Exit can replace them.
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

// meteredExpr is an expression that is evaluated for each element. It embeds ParenthesesExpr, through which HCL finds
// references in the inner expression.
type meteredExpr struct {
	hclsyntax.ParenthesesExpr
	meter *meter
	first bool // evaluated first for an element, so it counts the element
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
	e.meter.addSize(value)
	return value, diags
}

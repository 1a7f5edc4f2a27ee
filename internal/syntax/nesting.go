package syntax

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// HCL's parser and its expressions recurse for every nested bracket, operator and template directive, and Go cannot
// recover from a stack overflow. The depth is therefore measured before parsing, on the tokens of the scanner, which
// does not recurse.

// hugeNumber reports whether a number would need gigabytes as text.
func hugeNumber(literal string) bool {
	digits, exponent, scaled := strings.Cut(strings.ToLower(literal), "e")
	if !scaled {
		return len(digits) > MaxExponent
	}
	n, err := strconv.Atoi(strings.TrimLeft(exponent, "+-"))
	return err != nil || n > MaxExponent || len(digits) > MaxExponent
}

type lexer func(src []byte, filename string, start hcl.Pos) (hclsyntax.Tokens, hcl.Diagnostics)

// guard returns an error for source text that must not be parsed. It subtracts the punctuation of the text from the limit.
func (p *Parser) guard(lex lexer, src []byte, filename string) *hcl.Diagnostic {
	if diag := p.count(src, filename); diag != nil {
		return diag
	}
	// The parser reports errors of the scanner too.
	tokens, _ := lex(src, filename, hcl.InitialPos)
	for _, token := range tokens {
		if token.Type == hclsyntax.TokenNumberLit && hugeNumber(string(token.Bytes)) {
			return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Number too large", Subject: &token.Range,
				Detail: "The number has too many digits or too large an exponent."}
		}
	}
	at, deep := tooDeep(tokens)
	if !deep {
		return nil
	}
	return &hcl.Diagnostic{
		Severity: hcl.DiagError,
		Summary:  "Configuration nested too deeply",
		Detail: fmt.Sprintf("Brackets, operators and template directives are nested more than %d levels deep here. "+
			"Split the expression with locals.", MaxNesting),
		Subject: &at,
	}
}

// count subtracts the punctuation of a text from the limit, which bounds the memory of the parser.
func (p *Parser) count(src []byte, filename string) *hcl.Diagnostic {
	if p.signs += punctuation(src); p.signs > maxSigns {
		return &hcl.Diagnostic{
			Severity: hcl.DiagError,
			Summary:  "Configuration too large",
			Detail: fmt.Sprintf("With %s the configuration has more than %d brackets, line ends and other punctuation "+
				"characters, the limit.", filename, maxSigns),
			Subject: &hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos},
		}
	}
	return nil
}

// punctuation counts the bytes that can start or end a token, so twice the result bounds the number of tokens.
func punctuation(src []byte) int {
	n := 0
	for _, c := range src {
		if c < '0' && c != ' ' || c > '9' && c < 'A' || c > 'Z' && c < 'a' && c != '_' || c > 'z' && c < 0x80 {
			n++
		}
	}
	return n
}

// level is one open bracket, quote or template, with the depth that its current item has accumulated.
type level struct {
	closer hclsyntax.TokenType
	piled  int
}

var closers = map[hclsyntax.TokenType]hclsyntax.TokenType{
	hclsyntax.TokenOBrace:          hclsyntax.TokenCBrace,
	hclsyntax.TokenOBrack:          hclsyntax.TokenCBrack,
	hclsyntax.TokenOParen:          hclsyntax.TokenCParen,
	hclsyntax.TokenOQuote:          hclsyntax.TokenCQuote,
	hclsyntax.TokenOHeredoc:        hclsyntax.TokenCHeredoc,
	hclsyntax.TokenTemplateInterp:  hclsyntax.TokenTemplateSeqEnd,
	hclsyntax.TokenTemplateControl: hclsyntax.TokenTemplateSeqEnd,
}

// tooDeep returns the position at which an upper bound of the parser's depth exceeds MaxNesting. A closing bracket
// without an opening one is ignored, so invalid text measures deeper, never shallower.
func tooDeep(tokens hclsyntax.Tokens) (hcl.Range, bool) {
	stack := []level{{closer: hclsyntax.TokenEOF}}
	depth := 0
	for _, token := range tokens {
		top := &stack[len(stack)-1]
		switch {
		case token.Type == top.closer && len(stack) > 1:
			depth -= top.piled
			stack = stack[:len(stack)-1]
			// An index may follow a bracket expression, which nests without an open bracket. Strings and template
			// parts have no index.
			if piles(token.Type) {
				stack[len(stack)-1].piled++
			} else {
				depth--
			}
		case closers[token.Type] != 0:
			if token.Type == hclsyntax.TokenTemplateControl {
				top.piled++
				depth++
			}
			stack = append(stack, level{closer: closers[token.Type]})
			depth++
		case token.Type == hclsyntax.TokenComma, endsLine(token) && endsItem(top.closer):
			depth -= top.piled
			top.piled = 0
		case operators[token.Type]:
			top.piled++
			depth++
		}
		if depth > MaxNesting {
			return token.Range, true
		}
	}
	return hcl.Range{}, false
}

func piles(closer hclsyntax.TokenType) bool {
	return closer == hclsyntax.TokenCBrack || closer == hclsyntax.TokenCParen || closer == hclsyntax.TokenCBrace
}

// endsLine reports whether a token contains a line end. A comment at the end of a line includes it.
func endsLine(token hclsyntax.Token) bool {
	return token.Type == hclsyntax.TokenNewline ||
		token.Type == hclsyntax.TokenComment && bytes.HasSuffix(token.Bytes, []byte("\n"))
}

// endsItem reports whether a line end inside the bracket starts a new item.
func endsItem(closer hclsyntax.TokenType) bool {
	return closer == hclsyntax.TokenCBrace || closer == hclsyntax.TokenEOF
}

var operators = map[hclsyntax.TokenType]bool{
	hclsyntax.TokenStar: true, hclsyntax.TokenSlash: true, hclsyntax.TokenPlus: true, hclsyntax.TokenMinus: true,
	hclsyntax.TokenPercent: true, hclsyntax.TokenEqualOp: true, hclsyntax.TokenNotEqual: true,
	hclsyntax.TokenLessThan: true, hclsyntax.TokenLessThanEq: true, hclsyntax.TokenGreaterThan: true,
	hclsyntax.TokenGreaterThanEq: true, hclsyntax.TokenAnd: true, hclsyntax.TokenOr: true, hclsyntax.TokenBang: true,
	hclsyntax.TokenQuestion: true, hclsyntax.TokenDot: true,
}

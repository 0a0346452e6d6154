package callback

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"

	"github.com/wakecall/wakecall/internal/message"
)

// allowed rejects what an expression must not use. The first of two compilations uses it and checks types.
type allowed struct {
	usesRes bool
	err     *file.Error
}

// Visit implements ast.Visitor.
func (a *allowed) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.ConditionalNode,
		*ast.ChainNode, *ast.SliceNode, *ast.ArrayNode, *ast.PredicateNode, *ast.UnaryNode, *ast.VariableDeclaratorNode:
	case *ast.IdentifierNode:
		a.usesRes = a.usesRes || n.Value == "res"
		a.refuse(node, strings.HasPrefix(n.Value, "_") || strings.HasPrefix(n.Value, "$"), message.Plain(n.Value))
	case *ast.PointerNode:
		a.refuse(node, n.Name != "" && n.Name != "index", message.Plain("#"+n.Name))
	case *ast.BinaryNode:
		a.binary(node, n)
	case *ast.MemberNode:
		a.refuse(node, n.Method, message.New("expression.method"))
		ast.Patch(node, call(".", n.Node, n.Property)) // a missing member is nil, not an error
	case *ast.BuiltinNode:
		a.refuse(node, !loops[n.Name], message.Plain(n.Name))
	case *ast.CallNode:
		id, ok := n.Callee.(*ast.IdentifierNode)
		a.refuse(node, !ok || functions[id.Value].operation == nil, message.New("expression.function"))
	default:
		a.refuse(node, true, message.New("expression.syntax"))
	}
}

func (a *allowed) binary(node *ast.Node, n *ast.BinaryNode) {
	if n.Operator == "matches" {
		s, ok := n.Right.(*ast.StringNode)
		a.refuse(node, !ok, message.New("expression.matches"))
		if !ok {
			return
		}
		if _, err := compilePattern(s.Value); err != nil && a.err == nil {
			a.err = &file.Error{Location: n.Right.Location(), Prev: err}
			s.Value = "" // so that expr does not compile it
		}
		return
	}
	refused := operators[n.Operator] == nil && !slices.Contains(unmetered, n.Operator)
	a.refuse(node, refused, message.New("expression.operator", n.Operator))
}

func (a *allowed) refuse(node *ast.Node, is bool, what message.Message) {
	if is && a.err == nil {
		a.err = &file.Error{Location: (*node).Location(), Prev: message.New("expression.refused", what)}
	}
}

// metered replaces metered operations with calls of do. The second compilation uses it.
type metered struct{ nodes int }

// Visit implements ast.Visitor.
func (v *metered) Visit(node *ast.Node) {
	v.nodes++
	switch n := (*node).(type) {
	case *ast.MemberNode:
		ast.Patch(node, call(".", n.Node, n.Property))
	case *ast.CallNode:
		id, _ := n.Callee.(*ast.IdentifierNode)
		ast.Patch(node, call(id.Value, n.Arguments...))
	case *ast.BinaryNode:
		if operators[n.Operator] == nil {
			return
		}
		right := n.Right
		if s, ok := right.(*ast.StringNode); ok && n.Operator == "matches" {
			p, _ := compilePattern(s.Value)
			right = &ast.ConstantNode{Value: p}
		}
		ast.Patch(node, call(n.Operator, n.Left, right))
	case *ast.PredicateNode: // nodes so far: at least those of the predicate
		n.Node = call("round", &ast.IntegerNode{Value: v.nodes}, n.Node)
	}
}

func call(name string, args ...ast.Node) ast.Node {
	first := []ast.Node{&ast.IdentifierNode{Value: "_meter"}, &ast.StringNode{Value: name}}
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: "_do"}, Arguments: append(first, args...)}
}

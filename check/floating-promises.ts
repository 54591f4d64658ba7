/**
 * Finds promises whose rejection nothing handles: one of them ends the process (Node, `unhandledRejection`). It asks
 * the compiler for types. A promise is handled if it is awaited, returned, stored, or ends in `.catch(…)` or `.then(…,
 * …)`; `void` handles nothing.
 */
import {
  type ArrowFunction,
  type Expression,
  type FunctionExpression,
  type Node,
  type SourceFile,
  SyntaxKind,
} from 'typescript/unstable/ast'
import {
  isArrowFunction,
  isBinaryExpression,
  isBlock,
  isCallExpression,
  isConditionalExpression,
  isExpressionStatement,
  isFunctionExpression,
  isIdentifier,
  isNewExpression,
  isParenthesizedExpression,
  isPropertyAccessExpression,
  isVoidExpression,
} from 'typescript/unstable/ast/is'
import { type Checker, SignatureKind, type Type, TypeFlags } from 'typescript/unstable/sync'
import { checkProjects, type ParsedFile } from './project.ts'

type FunctionValue = ArrowFunction | FunctionExpression

interface Suspects {
  readonly dropped: Expression[]
  readonly functions: FunctionValue[]
  readonly references: Expression[]
}

export const floatingPromises = (configFile: string): string[] =>
  checkProjects(
    configFile,
    () => true,
    ({ checker }, files) => {
      const promises = new PromiseTypes(checker)
      return files.flatMap((file) => checkFile(file, promises, checker)).toArray()
    },
  )

function checkFile({ path, file, findLine }: ParsedFile, promises: PromiseTypes, checker: Checker): string[] {
  const place = (node: Node) => `${path}:${findLine(node)}`
  const suspects = findSuspects(file)
  return [
    ...promises.among(suspects.dropped).map((node) => `${place(node)}: a promise whose rejection nobody handles`),
    ...findPassedFunctions(suspects, promises, checker).map(
      (node) => `${place(node)}: a function that gives a promise, where nobody takes one`,
    ),
  ]
}

function findSuspects(file: SourceFile): Suspects {
  const suspects: Suspects = { dropped: [], functions: [], references: [] }
  const visit = (node: Node): void => {
    if (isExpressionStatement(node)) suspects.dropped.push(...findUnhandled(node.expression))
    else if (isVoidExpression(node) && !isExpressionStatement(node.parent))
      suspects.dropped.push(...findUnhandled(node.expression))
    else if (isArrowFunction(node) || isFunctionExpression(node)) suspects.functions.push(node)
    else if (isCallExpression(node) || isNewExpression(node))
      suspects.references.push(...(node.arguments ?? []).filter(isReference))
    node.forEachChild(visit)
  }
  visit(file)
  return suspects
}

const isReference = (node: Node): boolean => isIdentifier(node) || isPropertyAccessExpression(node)

/** Returns the values of a discarded expression, except those that handle their own rejection. */
function findUnhandled(node: Expression): Expression[] {
  if (isParenthesizedExpression(node) || isVoidExpression(node)) return findUnhandled(node.expression)
  if (isConditionalExpression(node)) return [...findUnhandled(node.whenTrue), ...findUnhandled(node.whenFalse)]
  if (isBinaryExpression(node)) {
    const { kind } = node.operatorToken
    if (kind === SyntaxKind.CommaToken) return [...findUnhandled(node.left), ...findUnhandled(node.right)]
    const isLogical =
      kind === SyntaxKind.AmpersandAmpersandToken ||
      kind === SyntaxKind.BarBarToken ||
      kind === SyntaxKind.QuestionQuestionToken
    return isLogical ? [...findUnhandled(node.left), ...findUnhandled(node.right)] : []
  }
  return node.kind === SyntaxKind.AwaitExpression || handlesRejection(node) ? [] : [node]
}

function handlesRejection(node: Expression): boolean {
  if (!isCallExpression(node) || !isPropertyAccessExpression(node.expression)) return false
  const { text } = node.expression.name
  return (text === 'catch' && node.arguments.length > 0) || (text === 'then' && node.arguments.length > 1)
}

/** Returns functions that return promises in a place whose type expects no result. */
function findPassedFunctions({ functions, references }: Suspects, promises: PromiseTypes, checker: Checker): Node[] {
  const isAsync = ({ modifiers }: FunctionValue) =>
    modifiers?.some(({ kind }) => kind === SyntaxKind.AsyncKeyword) === true
  const bodies = functions.flatMap(readBody)
  const giving = new Set<Node>(promises.among(bodies))
  const suspects: Expression[] = functions.filter(
    (node) => isAsync(node) || readBody(node).some((one) => giving.has(one)),
  )
  suspects.push(...promises.functionsAmong(references))
  return suspects.filter((node) => {
    const expected = checker.getContextualType(node)
    return expected !== undefined && promises.takesNothing(expected)
  })
}

/** Returns the body of a function without a block; values that `void` discards are found separately. */
const readBody = ({ body }: FunctionValue): Expression[] =>
  isBlock(body) || isVoidExpression(body) ? [] : findUnhandled(body as Expression)

class PromiseTypes {
  readonly #checker: Checker
  readonly #known = new Map<number, boolean>()
  readonly #functions = new Map<number, boolean>()
  readonly #void = new Map<number, boolean>()

  constructor(checker: Checker) {
    this.#checker = checker
  }

  /** Returns the nodes whose values are, or may be, promises or lists of promises. */
  among(nodes: readonly Expression[]): Expression[] {
    const types = readTypes(this.#checker, nodes)
    return nodes.filter((_, index) => this.#isPromise(types[index]))
  }

  /** Returns the nodes whose values are functions that may return a promise. */
  functionsAmong(nodes: readonly Expression[]): Expression[] {
    const types = readTypes(this.#checker, nodes)
    return nodes.filter((_, index) => {
      const type = types[index]
      return (
        type !== undefined && once(this.#functions, type, () => this.#returns(type).some((one) => this.#isPromise(one)))
      )
    })
  }

  /** Tells whether all functions of this type return nothing. */
  takesNothing(type: Type): boolean {
    return once(this.#void, type, () => {
      const returned = listParts(type).flatMap((part) => this.#returns(part))
      return returned.length > 0 && returned.every((one) => ((one?.flags ?? 0) & TypeFlags.Void) !== 0)
    })
  }

  #returns(type: Type): (Type | undefined)[] {
    if ((type.flags & TypeFlags.Object) === 0) return []
    const signatures = this.#checker.getSignaturesOfType(type, SignatureKind.Call)
    return signatures.map((signature) => this.#checker.getReturnTypeOfSignature(signature))
  }

  #isPromise(type: Type | undefined, seen = new Set<number>()): boolean {
    if (type === undefined) return false
    const answer = this.#known.get(type.id)
    if (answer !== undefined) return answer
    // A type may contain itself; then its check is running already.
    if (seen.has(type.id)) return false
    const isOutermost = seen.size === 0
    seen.add(type.id)
    const found = listParts(type).some((part) => this.#isPromiseItself(part, seen))
    // A negative result within another type may be incomplete, because that type's check is still running.
    if (found || isOutermost) this.#known.set(type.id, found)
    return found
  }

  #isPromiseItself(type: Type, seen: Set<number>): boolean {
    if ((type.flags & (TypeFlags.Object | TypeFlags.Intersection)) === 0) return false
    if (this.#checker.isArrayLikeType(type) && type.isTypeReference())
      return unlessTuple(() => this.#checker.getTypeArguments(type), []).some((item) => this.#isPromise(item, seen))
    return this.#checker.getPropertyOfType(type, 'then') !== undefined
  }
}

/** Returns the types of nodes in one query. If that fails for a tuple among them, the others are queried without it. */
function readTypes(checker: Checker, nodes: readonly Expression[]): readonly (Type | undefined)[] {
  if (nodes.length === 0) return []
  const types = unlessTuple(() => checker.getTypeAtLocation(nodes), undefined)
  if (types !== undefined) return types
  if (nodes.length === 1) return [undefined]
  const middle = nodes.length >> 1
  return [...readTypes(checker, nodes.slice(0, middle)), ...readTypes(checker, nodes.slice(middle))]
}

/** Queries the compiler; its interface fails for some tuples (7.0.2), which hold no promises here. */
function unlessTuple<T, U>(ask: () => T, otherwise: U): T | U {
  try {
    return ask()
  } catch (error) {
    if (!/TupleType/.test(String(error))) throw error
    return otherwise
  }
}

const listParts = (type: Type): readonly Type[] => (type.isUnionType() ? (type.getTypes() ?? []) : [type])

function once(known: Map<number, boolean>, type: Type, find: () => boolean): boolean {
  const answer = known.get(type.id)
  if (answer !== undefined) return answer
  const found = find()
  known.set(type.id, found)
  return found
}

if (import.meta.main) {
  const found = floatingPromises(new URL('../tsconfig.json', import.meta.url).pathname)
  for (const line of found) console.error(line)
  process.exit(found.length === 0 ? 0 : 1)
}

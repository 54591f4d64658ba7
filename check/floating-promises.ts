/**
 * Promises whose rejection nobody would handle: one of them ends the process (Node, `unhandledRejection`). Asks the
 * compiler for types, so that what comes from Node's own modules and from packages is seen as well. A promise is handled
 * where it is awaited, returned, kept, or ends in `.catch(…)` or `.then(…, …)`; `void` handles nothing.
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

/** What of one file may hold a promise that nobody waits for. */
interface Suspects {
  /** Values that are thrown away. */
  readonly dropped: Expression[]
  /** Functions that are written where they are handed over. */
  readonly functions: FunctionValue[]
  /** Functions that are handed over by their names. */
  readonly references: Expression[]
}

/** A line for each promise of a project (its `tsconfig.json`) that floats. Paths are relative to the file's folder. */
export const floatingPromises = (configFile: string): string[] =>
  checkProjects(
    configFile,
    () => true,
    ({ checker }, files) => {
      const promises = new PromiseTypes(checker)
      return files.flatMap((file) => findingsIn(file, promises, checker)).toArray()
    },
  )

function findingsIn({ path, file, lineOf }: ParsedFile, promises: PromiseTypes, checker: Checker): string[] {
  const place = (node: Node) => `${path}:${lineOf(node)}`
  const suspects = suspectsIn(file)
  return [
    ...promises.among(suspects.dropped).map((node) => `${place(node)}: a promise whose rejection nobody handles`),
    ...handedOver(suspects, promises, checker).map(
      (node) => `${place(node)}: a function that gives a promise, where nobody takes one`,
    ),
  ]
}

function suspectsIn(file: SourceFile): Suspects {
  const suspects: Suspects = { dropped: [], functions: [], references: [] }
  const visit = (node: Node): void => {
    if (isExpressionStatement(node)) suspects.dropped.push(...unhandled(node.expression))
    else if (isVoidExpression(node) && !isExpressionStatement(node.parent))
      suspects.dropped.push(...unhandled(node.expression))
    else if (isArrowFunction(node) || isFunctionExpression(node)) suspects.functions.push(node)
    else if (isCallExpression(node) || isNewExpression(node))
      suspects.references.push(...(node.arguments ?? []).filter(isReference))
    node.forEachChild(visit)
  }
  visit(file)
  return suspects
}

const isReference = (node: Node): boolean => isIdentifier(node) || isPropertyAccessExpression(node)

/** The values that an expression gives when nobody takes them, but for those that handle their own rejection. */
function unhandled(node: Expression): Expression[] {
  if (isParenthesizedExpression(node) || isVoidExpression(node)) return unhandled(node.expression)
  if (isConditionalExpression(node)) return [...unhandled(node.whenTrue), ...unhandled(node.whenFalse)]
  if (isBinaryExpression(node)) {
    const { kind } = node.operatorToken
    if (kind === SyntaxKind.CommaToken) return [...unhandled(node.left), ...unhandled(node.right)]
    const isLogical =
      kind === SyntaxKind.AmpersandAmpersandToken ||
      kind === SyntaxKind.BarBarToken ||
      kind === SyntaxKind.QuestionQuestionToken
    return isLogical ? [...unhandled(node.left), ...unhandled(node.right)] : []
  }
  return node.kind === SyntaxKind.AwaitExpression || handlesRejection(node) ? [] : [node]
}

function handlesRejection(node: Expression): boolean {
  if (!isCallExpression(node) || !isPropertyAccessExpression(node.expression)) return false
  const { text } = node.expression.name
  return (text === 'catch' && node.arguments.length > 0) || (text === 'then' && node.arguments.length > 1)
}

/** Functions that give promises and stand where the type of the place says that nothing is given. */
function handedOver({ functions, references }: Suspects, promises: PromiseTypes, checker: Checker): Node[] {
  const isAsync = ({ modifiers }: FunctionValue) =>
    modifiers?.some(({ kind }) => kind === SyntaxKind.AsyncKeyword) === true
  const bodies = functions.flatMap(bodyOf)
  const giving = new Set<Node>(promises.among(bodies))
  const suspects: Expression[] = functions.filter(
    (node) => isAsync(node) || bodyOf(node).some((one) => giving.has(one)),
  )
  suspects.push(...promises.functionsAmong(references))
  return suspects.filter((node) => {
    const expected = checker.getContextualType(node)
    return expected !== undefined && promises.takesNothing(expected)
  })
}

/** What a function gives that has no block; what `void` throws away is found by itself. */
const bodyOf = ({ body }: FunctionValue): Expression[] =>
  isBlock(body) || isVoidExpression(body) ? [] : unhandled(body as Expression)

/** What the compiler knows of types, as far as promises go; each type is asked about once. */
class PromiseTypes {
  readonly #checker: Checker
  readonly #known = new Map<number, boolean>()
  readonly #functions = new Map<number, boolean>()
  readonly #void = new Map<number, boolean>()

  constructor(checker: Checker) {
    this.#checker = checker
  }

  /** The nodes whose values are promises, lists of promises, or may be. */
  among(nodes: readonly Expression[]): Expression[] {
    const types = typesOf(this.#checker, nodes)
    return nodes.filter((_, index) => this.#isPromise(types[index]))
  }

  /** The nodes whose values are functions that may give a promise. */
  functionsAmong(nodes: readonly Expression[]): Expression[] {
    const types = typesOf(this.#checker, nodes)
    return nodes.filter((_, index) => {
      const type = types[index]
      return (
        type !== undefined && once(this.#functions, type, () => this.#returns(type).some((one) => this.#isPromise(one)))
      )
    })
  }

  /** Whether all functions of this type give nothing. */
  takesNothing(type: Type): boolean {
    return once(this.#void, type, () => {
      const returned = partsOf(type).flatMap((part) => this.#returns(part))
      return returned.length > 0 && returned.every((one) => ((one?.flags ?? 0) & TypeFlags.Void) !== 0)
    })
  }

  #returns(type: Type): (Type | undefined)[] {
    if ((type.flags & TypeFlags.Object) === 0) return []
    const signatures = this.#checker.getSignaturesOfType(type, SignatureKind.Call)
    return signatures.map((signature) => this.#checker.getReturnTypeOfSignature(signature))
  }

  /** `seen`: the types in which this one was found. */
  #isPromise(type: Type | undefined, seen = new Set<number>()): boolean {
    if (type === undefined) return false
    const answer = this.#known.get(type.id)
    if (answer !== undefined) return answer
    // A type may hold itself: what it holds is being looked at.
    if (seen.has(type.id)) return false
    const isOutermost = seen.size === 0
    seen.add(type.id)
    const found = partsOf(type).some((part) => this.#isPromiseItself(part, seen))
    // That nothing was found within another type may only be for want of what that one is being looked at for.
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

/** Types of nodes, asked for together; if that fails for a tuple among them, the others are asked for without it. */
function typesOf(checker: Checker, nodes: readonly Expression[]): readonly (Type | undefined)[] {
  if (nodes.length === 0) return []
  const types = unlessTuple(() => checker.getTypeAtLocation(nodes), undefined)
  if (types !== undefined) return types
  if (nodes.length === 1) return [undefined]
  const middle = nodes.length >> 1
  return [...typesOf(checker, nodes.slice(0, middle)), ...typesOf(checker, nodes.slice(middle))]
}

/** Asks the compiler; its interface fails for some tuples (7.0.2), which hold no promises here. */
function unlessTuple<T, U>(ask: () => T, otherwise: U): T | U {
  try {
    return ask()
  } catch (error) {
    if (!/TupleType/.test(String(error))) throw error
    return otherwise
  }
}

const partsOf = (type: Type): readonly Type[] => (type.isUnionType() ? (type.getTypes() ?? []) : [type])

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

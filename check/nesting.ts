/**
 * Finds statements that nest deeper than four levels within a function: `if`, loops, `switch` and `try` count, `else
 * if` does not. A deeper place needs a comment above it, `nesting: ` and the reason. Tests are not checked.
 */
import { type IfStatement, type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast'
import { isIfStatement } from 'typescript/unstable/ast/is'
import { checkProjects, type ParsedFile } from './project.ts'

const DEEPEST = 4
const notChecked = /^(bench|test)\//

const functions: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.ArrowFunction,
  SyntaxKind.ClassStaticBlockDeclaration,
  SyntaxKind.Constructor,
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.FunctionExpression,
  SyntaxKind.GetAccessor,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.SetAccessor,
])

const levels: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.DoStatement,
  SyntaxKind.ForInStatement,
  SyntaxKind.ForOfStatement,
  SyntaxKind.ForStatement,
  SyntaxKind.IfStatement,
  SyntaxKind.SwitchStatement,
  SyntaxKind.TryStatement,
  SyntaxKind.WhileStatement,
])

/** Returns a line for each place of a project (its `tsconfig.json`) that nests too deeply. */
export const deepNesting = (configFile: string): string[] =>
  checkProjects(
    configFile,
    (path) => !notChecked.test(path),
    (_project, files) => files.flatMap(checkFile).toArray(),
  )

const checkFile = ({ path, file, findLine }: ParsedFile): string[] =>
  findTooDeep(file)
    .map(findLine)
    .filter((line) => !isExcused(file.text.split('\n')[line - 2]))
    .map((line) => `${path}:${line}: nests deeper than ${DEEPEST} levels`)

const isExcused = (above: string | undefined): boolean => /^\s*\/\/ nesting: \S/.test(above ?? '')

/** Returns the first statement of each place below the deepest level. */
function findTooDeep(file: SourceFile): readonly Node[] {
  const found: Node[] = []
  const visit = (node: Node, depth: number): void => {
    const within = functions.has(node.kind) ? 0 : depth + (isLevel(node) ? 1 : 0)
    if (within > DEEPEST) found.push(node)
    else node.forEachChild((child) => visit(child, within))
  }
  visit(file, 0)
  return found
}

const isLevel = (node: Node): boolean => levels.has(node.kind) && !isElseIf(node)

const isElseIf = (node: Node): boolean =>
  isIfStatement(node) && isIfStatement(node.parent) && (node.parent as IfStatement).elseStatement === node

if (import.meta.main) {
  const found = deepNesting(new URL('../tsconfig.json', import.meta.url).pathname)
  for (const line of found) console.error(line)
  process.exit(found.length === 0 ? 0 : 1)
}

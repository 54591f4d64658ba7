import { join } from 'node:path'
import type { Node, SourceFile } from 'typescript/unstable/ast'
import { API, type Project } from 'typescript/unstable/sync'

export interface ParsedFile {
  readonly path: string
  readonly file: SourceFile
  /** Returns the line at which a node begins, from 1. */
  findLine(node: Node): number
}

/** Returns the findings of `check` in each project. `check` gets the project's own files that `isChecked` accepts. */
export function checkProjects(
  configFile: string,
  isChecked: (path: string) => boolean,
  check: (project: Project, files: IteratorObject<ParsedFile>) => string[],
): string[] {
  const root = `${join(configFile, '..')}/`
  const api = new API({ cwd: root })
  try {
    const snapshot = api.updateSnapshot({ openProjects: [configFile] })
    return snapshot.getProjects().flatMap((project) => check(project, readFiles(project, root, isChecked)))
  } finally {
    api.close()
  }
}

/** Parses one file at a time: the compiler does not hold two in memory. */
function* readFiles({ program }: Project, root: string, isChecked: (path: string) => boolean): Generator<ParsedFile> {
  for (const name of program.getSourceFileNames()) {
    const path = name.slice(root.length)
    if (!name.startsWith(root) || path.startsWith('node_modules/') || !isChecked(path)) continue
    const file = program.getSourceFile(name) as SourceFile
    yield { path, file, findLine: (node) => file.text.slice(0, node.getStart(file)).split('\n').length }
  }
}

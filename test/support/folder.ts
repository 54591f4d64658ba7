import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export interface TemporaryFolder {
  readonly path: string
  /** Writes a file below the folder, and returns its path. */
  write(name: string, content: string): string
  [Symbol.dispose](): void
}

/** Creates a temporary folder with these files; `using` removes it. */
export function temporaryFolder(files: Readonly<Record<string, string>> = {}): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), 'portico-'))
  const write = (name: string, content: string) => {
    const file = join(path, name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, content)
    return file
  }
  for (const [name, content] of Object.entries(files)) write(name, content)
  return { path, write, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** Makes `npx` find the installed packages from a folder, so that it does not ask the package registry. */
export const linkPackages = ({ path }: TemporaryFolder): void =>
  symlinkSync(join(import.meta.dirname, '../../node_modules'), join(path, 'node_modules'))

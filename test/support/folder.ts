import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export interface TemporaryFolder {
  readonly path: string
  /** Writes a file below the folder; returns its path. */
  write(name: string, content: string): string
  [Symbol.dispose](): void
}

/** A folder of its own, with these files in it; `using` removes it. */
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

/** Has `npx` find in a folder what is installed here: it would ask the package registry for it. */
export const linkPackages = ({ path }: TemporaryFolder): void =>
  symlinkSync(join(import.meta.dirname, '../../node_modules'), join(path, 'node_modules'))

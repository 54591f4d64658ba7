/** Packs programs of this machine, with the shared libraries that they need, as entries of an image's layer. */
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TarEntry } from './tar.ts'

const entry = (path: string, content: Uint8Array, mode: number): TarEntry => ({
  path: path.replace(/^\//, ''),
  type: 'file',
  mode,
  content,
})

/** Returns a file's entry. Merged-usr systems reach libraries by a link; in the image each has the requested name. */
export const buildFileEntry = (path: string, source = path, mode = 0o644): TarEntry =>
  entry(path, readFileSync(realpathSync(source)), mode)

/** Returns the paths of the shared libraries of a program, including its dynamic linker, as `ldd` lists them. */
function listLibraries(program: string): string[] {
  const output = execFileSync('ldd', [program], { encoding: 'utf8' })
  const absent = /^\s*(\S+) => not found/m.exec(output)
  if (absent) throw new Error(`${program} needs ${absent[1]}, which this machine lacks`)
  return [...output.matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)].map((match) => match[1] as string)
}

/** Returns a program without its symbol table if `strip` is installed: a fifth of Node's binary is symbols. */
function stripped(program: string): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'portico-image-'))
  try {
    const copy = join(folder, 'program')
    copyFileSync(realpathSync(program), copy)
    const { status } = spawnSync('strip', ['--strip-unneeded', copy], { stdio: 'ignore' })
    return readFileSync(status === 0 ? copy : realpathSync(program))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Returns `program` of this machine at `path` of the image, with its libraries that exist here. */
export function programAt(path: string, program: string): TarEntry[] {
  return [
    entry(path, stripped(program), 0o755),
    ...listLibraries(program).map((library) => buildFileEntry(library, library, 0o755)),
  ]
}

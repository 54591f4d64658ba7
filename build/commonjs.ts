/**
 * The chunks of the bundle as CommonJS, which Node finds and links faster: as ES modules the 64 files that a proxy loads
 * took 20 ms of processor time more, and importing `node:http` as one loads Node's own undici, 27 ms, for names that nobody
 * asks for.
 */

import { basename } from 'node:path'
import type { Metafile, OutputFile, TransformOptions } from 'esbuild'
import { transform } from 'esbuild'

/** What CommonJS has in the place of `import.meta`: for the first step, which knows what is meant by it. */
export const importMetaDefines = { 'import.meta.dirname': '__dirname', 'import.meta.url': 'importMetaUrl' }

const IMPORT_META_URL = 'const importMetaUrl = require("node:url").pathToFileURL(__filename).href;'

/** Those of both steps. */
export const CHUNK_OPTIONS = {
  platform: 'node',
  target: 'node24',
  minifySyntax: true,
  // Node keeps the source text in memory, comments and all; one that is not Latin-1 doubles it.
  minifyWhitespace: true,
  sourcesContent: false,
} as const satisfies TransformOptions

export interface Chunk {
  readonly name: string
  readonly code: string
  readonly map: string
}

/** Makes CommonJS of esbuild's output in ESM with source maps of their own. A chunk that waits at its top level fails. */
export function commonJs(outputs: readonly OutputFile[]): Promise<Chunk[]> {
  const maps = new Map(outputs.map(({ path, text }) => [path, text]))
  return Promise.all(
    outputs
      .filter(({ path }) => path.endsWith('.js'))
      .map(async ({ path, text }) => {
        const { code, map } = await transform(`${text}\n${inlineMap(maps.get(`${path}.map`) as string)}`, {
          ...CHUNK_OPTIONS,
          format: 'cjs',
          supported: { 'dynamic-import': false },
          sourcemap: 'external',
          sourcefile: basename(path),
          ...(text.includes('importMetaUrl') && { banner: IMPORT_META_URL }),
        })
        return { name: basename(path), code, map }
      }),
  )
}

const inlineMap = (map: string) =>
  `//# sourceMappingURL=data:application/json;base64,${Buffer.from(map).toString('base64')}`

/** The names of chunks that are loaded with `sources`: theirs, and all that these import. */
export function loadedWith(sources: readonly string[], { outputs }: Metafile): string[] {
  const all = Object.entries(outputs)
  const open = sources.map((source) => {
    const found = all.find(([, { entryPoint }]) => entryPoint === source)
    if (found === undefined) throw new Error(`${source} has no chunk of its own`)
    return found[0]
  })
  const names = new Set<string>()
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (names.has(basename(path))) continue
    names.add(basename(path))
    for (const { path: imported, kind, external } of outputs[path]?.imports ?? [])
      if (kind === 'import-statement' && !external) open.push(imported)
  }
  return [...names].sort()
}

/**
 * Converts the chunks of the bundle to CommonJS: as ES modules the 64 files of a proxy took 20 ms more processor time,
 * and importing `node:http` as one loads Node's own undici, 27 ms.
 */

import { basename } from 'node:path'
import type { Metafile, OutputFile, TransformOptions } from 'esbuild'
import { transform } from 'esbuild'

/** The CommonJS equivalents of `import.meta`, for the first step, which resolves it. */
export const importMetaDefines = { 'import.meta.dirname': '__dirname', 'import.meta.url': 'importMetaUrl' }

const IMPORT_META_URL = 'const importMetaUrl = require("node:url").pathToFileURL(__filename).href;'

export const CHUNK_OPTIONS = {
  platform: 'node',
  target: 'node24',
  minifySyntax: true,
  // Node keeps the source text in memory, including comments. A text that is not Latin-1 doubles it.
  minifyWhitespace: true,
  sourcesContent: false,
} as const satisfies TransformOptions

export interface Chunk {
  readonly name: string
  readonly code: string
  readonly map: string
}

/** Converts esbuild's ESM output to CommonJS with source maps of its own. A chunk with a top-level await fails. */
export function bundleCommonJs(outputs: readonly OutputFile[]): Promise<Chunk[]> {
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

/** Returns the names of the chunks that are loaded with `sources`: theirs, and all that these import. */
export function listLoaded(sources: readonly string[], { outputs }: Metafile): string[] {
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

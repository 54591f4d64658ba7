import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type BuildOptions, build } from 'esbuild'
import type { ImageOptions } from '../../../build/image/archive.ts'
import { NODE_PATH, nodeLayer, porticoImage } from '../../../build/image/portico.ts'
import type { TarEntry } from '../../../build/image/tar.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const everything = join(root, 'node_modules', '@modelcontextprotocol', 'server-everything', 'dist')

/** The image of the operator and the data planes on the node. */
export const PORTICO_IMAGE = 'localhost/portico:e2e'

const file = (path: string, content: Uint8Array): TarEntry => ({ path, type: 'file', mode: 0o644, content })

/** Bundles a program into a few files that need no node_modules. */
async function bundle(folder: string, options: BuildOptions): Promise<TarEntry[]> {
  const { outputFiles = [] } = await build({
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    splitting: true,
    minify: true,
    write: false,
    outdir: '/',
    logLevel: 'warning',
    banner: {
      js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
    },
    ...options,
  })
  return outputFiles.map(({ path, contents }) => file(join(folder, path), contents))
}

const serverImage = (
  name: string,
  node: readonly TarEntry[],
  entries: readonly TarEntry[],
  entrypoint: readonly string[],
): ImageOptions => ({
  name,
  layers: [node, [file('app/package.json', Buffer.from('{"type":"module"}')), ...entries]],
  entrypoint,
  env: { PATH: '/usr/local/bin' },
  user: '1000:1000',
  workingDir: '/app',
  compress: false,
})

/** The reference server as its published image has it, which takes the whole command line as arguments. */
async function everythingImage(node: readonly TarEntry[]): Promise<ImageOptions> {
  const program = await bundle('app/dist', { entryPoints: { index: join(everything, 'index.js') } })
  const docs = readdirSync(join(everything, 'docs')).map((name) =>
    file(`app/docs/${name}`, readFileSync(join(everything, 'docs', name))),
  )
  return serverImage('mcp/everything:2026.8.31', node, [...program, ...docs], [])
}

async function clockImage(node: readonly TarEntry[]): Promise<ImageOptions> {
  const program = await bundle('app', { entryPoints: [join(root, 'samples/quickstart/clock-server.ts')] })
  return serverImage('portico-samples/clock:1.0.0', node, program, [`/${NODE_PATH}`, 'clock-server.js'])
}

/** Portico from dist/, and the images of samples/quickstart. */
export async function nodeImages(): Promise<ImageOptions[]> {
  const node = nodeLayer()
  const portico = await porticoImage({ name: PORTICO_IMAGE, compress: false, node })
  return [portico, await everythingImage(node), await clockImage(node)]
}

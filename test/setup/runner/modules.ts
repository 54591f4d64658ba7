/**
 * Writes replacements of some modules for test files, because a short file spends more than half of its time on finding,
 * reading and linking a thousand modules. Large packages become one file each, and so does each worker thread, which a
 * registry starts anew. The check of a gateway's configuration is compiled as in the bundle (build/patches/validators.ts).
 * The code is the same.
 *
 * Usage: modules.ts FOLDER
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { CHECK_FILE, compiledValidators } from '../../../build/patches/validators.ts'
import { MAP_FILE } from './loaded-modules.ts'

/** The imports from packages that have many modules. Code that two of them share is in a separate file. */
const PACKAGES = [
  ...[
    'typebox',
    'typebox/value',
    'ajv',
    'ajv/dist/standalone/index.js',
    'zod',
    'yaml',
    'undici',
    'jose',
    'oidc-provider',
    'puppeteer-core',
  ],
  ...['kysely', 'kysely/migration', 'pg', 'hono', 'hono/html', 'hono/cookie'],
  ...['@modelcontextprotocol/client', '@modelcontextprotocol/client/stdio', '@modelcontextprotocol/client/ext/skills'],
  ...['@modelcontextprotocol/server', '@modelcontextprotocol/server/stdio', '@modelcontextprotocol/server/ext/skills'],
  '@modelcontextprotocol/node',
  ...[
    'client/streamableHttp',
    'client/index',
    'client/stdio',
    'client/auth',
    'server/mcp',
    'server/streamableHttp',
  ].map((path) => `@modelcontextprotocol/sdk/${path}.js`),
  ...['server/stdio', 'server/sse', 'server/completable', 'shared/transport', 'shared/protocol', 'types'].map(
    (path) => `@modelcontextprotocol/sdk/${path}.js`,
  ),
]

/** The entries of worker threads. */
const WORKERS = [
  'dataplane/registry/sync/worker.ts',
  'dataplane/config/read/worker.ts',
  'operator/runtime/checks/worker.ts',
].map((file) => join(import.meta.dirname, '../../..', file))

const folder = process.argv[2] as string
const entry = (name: string) => name.replace(/^@/, '').replaceAll(/[^\w]+/g, '-')

/** Returns a module that exports what a package exports. */
async function buildStub(name: string): Promise<string> {
  const exported = Object.keys(await import(name))
  const file = JSON.stringify(fileURLToPath(import.meta.resolve(name)))
  if (!exported.includes('module.exports'))
    return `export * from ${file}\n${exported.includes('default') ? `export { default } from ${file}` : ''}`
  const names = exported.filter((one) => one !== 'default' && one !== 'module.exports')
  return `const all = require(${file})\nexport default all\nexport const { ${names.join(', ')} } = all`
}

const stubs = new Map(await Promise.all(PACKAGES.map(async (name) => [entry(name), await buildStub(name)] as const)))
const fromStubs: Plugin = {
  name: 'stubs',
  setup(builder) {
    builder.onResolve({ filter: /^stub:/ }, ({ path }) => ({ path: path.slice('stub:'.length), namespace: 'stub' }))
    builder.onLoad({ filter: /.*/, namespace: 'stub' }, ({ path }) => ({
      contents: stubs.get(path) as string,
      resolveDir: import.meta.dirname,
    }))
  },
}

/** Keeps the place of our modules, beside which they find packages and other files. */
const inPlace: Plugin = {
  name: 'in place',
  setup(builder) {
    builder.onLoad({ filter: /\/(crds|dataplane|operator)\/[^:]*\.ts$/ }, ({ path }) => ({
      loader: 'ts',
      contents: readFileSync(path, 'utf8')
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
        // The banner has a function of this name.
        .replaceAll(/\brequire(?=\(| = createRequire\()/g, 'requireHere'),
    }))
  },
}

const workers = new Map(WORKERS.map((file, index) => [`worker-${index}`, file]))
await build({
  entryPoints: {
    check: CHECK_FILE,
    ...Object.fromEntries(workers),
    ...Object.fromEntries(stubs.keys().map((name) => [name, `stub:${name}`])),
  },
  outdir: folder,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  logLevel: 'warning',
  // Node modules that CommonJS packages require.
  banner: {
    js: `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);`,
  },
  plugins: [compiledValidators, inPlace, fromStubs],
})
const map = {
  ...Object.fromEntries(PACKAGES.map((name) => [import.meta.resolve(name), `${entry(name)}.js`])),
  [pathToFileURL(CHECK_FILE).href]: 'check.js',
  ...Object.fromEntries(workers.entries().map(([name, file]) => [pathToFileURL(file).href, `${name}.js`])),
}
writeFileSync(join(folder, MAP_FILE), JSON.stringify(map))

/**
 * Writes dist/ for the npm package and the image, because Node strips no types under node_modules: one entry for the
 * command and one for each worker thread, found by its spelling in the source, `new URL('./worker.ts',
 * import.meta.url)`. Subcommands stay chunks of their own, so that a gateway loads only what it needs. The policy
 * engine, a CommonJS module that reads a file beside itself, is copied. Modules that synchronous code loads rarely
 * (CEL, Redis) are files of their own to `require`. `gateway.start` and `operator.start` list the chunks of a start for
 * the image (start.cjs). Usage: bundle.ts [another folder than dist]
 */
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { build, type Plugin } from 'esbuild'
import packageJson from '../package.json' with { type: 'json' }
import { bundleCommonJs, CHUNK_OPTIONS, importMetaDefines, listLoaded } from './commonjs.ts'
import { checkVersions, patches } from './patches/index.ts'
import { undiciDefines } from './patches/undici.ts'
import { buildBom } from './sbom.ts'
import { STARTS, type Started, startFile, startText } from './start.ts'

const root = join(import.meta.dirname, '..')
const outdir = resolve(process.argv[2] ?? join(root, 'dist'))
const WORKER = /new URL\(\s*'(\.[^']+\.ts)',\s*import\.meta\.url,?\s*\)/g

const formatBundleName = (file: string) => relative(root, file).replace(/\.ts$/, '').replaceAll('/', '-')

const workers = new Map<string, string>()
for (const file of globSync('{cli,console,operator,dataplane}/**/*.ts', { cwd: root })) {
  for (const match of readFileSync(join(root, file), 'utf8').matchAll(WORKER)) {
    const worker = resolve(root, dirname(file), match[1] as string)
    workers.set(formatBundleName(worker), worker)
  }
}

const BOM_FILE = 'sbom.cdx.json'

const ENGINE = '@cedar-policy/cedar-wasm/nodejs'
const ENGINE_FILE = 'cedar_wasm.cjs'

/** The packages that are loaded by `require` at their first use, and their files. */
const REQUIRED = { '@marcbachmann/cel-js': 'cel-js.cjs', ioredis: 'ioredis.cjs', re2js: 're2js.cjs' }

/** The script that the console serves to browsers, by its spelling in the source, and its file in the bundle. */
const BROWSER_SCRIPT = '../browser/console.js'
const BROWSER_FILE = 'console-browser.js'

const pointToBundles: Plugin = {
  name: 'workers',
  setup(builder) {
    builder.onLoad({ filter: /\/(cli|console|operator|dataplane)\/.*\.ts$/ }, ({ path }) => {
      const source = readFileSync(path, 'utf8').replaceAll(
        WORKER,
        (_, target: string) => `new URL('./${formatBundleName(resolve(dirname(path), target))}.js', import.meta.url)`,
      )
      const withScript = source.replaceAll(`new URL('${BROWSER_SCRIPT}'`, `new URL('./${BROWSER_FILE}'`)
      const files = Object.entries({ ...REQUIRED, [ENGINE]: ENGINE_FILE })
      const contents = files.reduce(
        (text, [name, file]) => text.replaceAll(`const PACKAGE = '${name}'`, `const PACKAGE = './${file}'`),
        withScript,
      )
      return { loader: 'ts', contents }
    })
  },
}

checkVersions()
rmSync(outdir, { recursive: true, force: true })
const result = await build({
  absWorkingDir: root,
  entryPoints: { portico: 'cli/main.ts', ...Object.fromEntries(workers) },
  outdir,
  bundle: true,
  splitting: true,
  format: 'esm',
  ...CHUNK_OPTIONS,
  sourcemap: 'external',
  metafile: true,
  write: false,
  logLevel: 'warning',
  define: { ...undiciDefines, ...importMetaDefines },
  // esbuild uses the first plugin that loads a file.
  plugins: [...patches, pointToBundles],
})
const chunks = await bundleCommonJs(result.outputFiles)
mkdirSync(outdir, { recursive: true })
for (const { name, code, map } of chunks) {
  writeFileSync(join(outdir, name), `${code}//# sourceMappingURL=${name}.map\n`)
  writeFileSync(join(outdir, `${name}.map`), map)
}
// The enclosing package declares ES modules.
writeFileSync(join(outdir, 'package.json'), '{"type":"commonjs"}\n')
for (const [started, sources] of Object.entries(STARTS)) {
  const atStart = new Set(listLoaded(sources, result.metafile))
  const text = startText(chunks.filter(({ name }) => atStart.has(name)))
  writeFileSync(join(outdir, startFile(started as Started)), text, 'latin1')
}
await build({
  absWorkingDir: root,
  entryPoints: [join('console', 'browser', 'console.js')],
  outfile: join(outdir, BROWSER_FILE),
  format: 'esm',
  platform: 'browser',
  target: 'es2023',
  minify: true,
  logLevel: 'warning',
})
const required = await Promise.all(
  Object.entries(REQUIRED).map(([name, file]) =>
    build({
      absWorkingDir: root,
      stdin: { contents: `module.exports = require('${name}')`, resolveDir: root },
      outfile: join(outdir, file),
      bundle: true,
      format: 'cjs',
      platform: 'node',
      target: 'node24',
      minifySyntax: true,
      // The errors of cel-js name classes. The modules of ioredis are CommonJS, so their names never clash.
      keepNames: name !== 'ioredis',
      metafile: true,
      logLevel: 'warning',
    }),
  ),
)
const engine = join(root, 'node_modules', ENGINE, 'cedar_wasm')
copyFileSync(join(import.meta.dirname, 'start.cjs'), join(outdir, 'start.cjs'))
copyFileSync(`${engine}.js`, join(outdir, ENGINE_FILE))
copyFileSync(`${engine}_bg.wasm`, join(outdir, 'cedar_wasm_bg.wasm'))
const shipped = [result, ...required].flatMap(({ metafile }) =>
  Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.keys(inputs).filter((path) => inputs[path]?.bytesInOutput),
  ),
)
const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
const bom = buildBom(packageJson, packages, [...shipped, `node_modules/${ENGINE}`])
writeFileSync(join(outdir, BOM_FILE), `${JSON.stringify(bom, null, 1)}\n`)
const bytes = chunks.reduce((sum, { code, map }) => sum + code.length + map.length, 0)
console.log(`${outdir}: ${2 * chunks.length} files, ${(bytes / 1e6).toFixed(1)} MB`)

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** A checkout in the form of its image. */
export interface Shipped {
  readonly command: readonly string[]
  remove(): Promise<void>
}

const WRITE_CODE = `
const [, script, dist] = process.argv
const { startCodes } = await import(script)
const { writeFileSync } = await import('node:fs')
for (const [name, code] of await startCodes(dist)) writeFileSync(dist + '/' + name, code)`

/**
 * Bundles a checkout, with its start-up code if it has that, and reads the command line from its Dockerfile. Older
 * checkouts work too. Node is the one that runs this.
 */
export async function buildShipped(root: string): Promise<Shipped> {
  const folder = await mkdtemp(join(tmpdir(), 'portico-shipped-'))
  const dist = join(folder, 'dist')
  const findFirst = (...paths: readonly string[]) => paths.map((path) => join(root, path)).find(existsSync)
  run([findFirst('build/bundle.ts', 'bundle.ts') as string, dist])
  const startCode = findFirst('build/start.ts', 'image/start-code.ts')
  if (startCode) run(['--input-type=module', '-e', WRITE_CODE, pathToFileURL(startCode).href, dist])
  const launcher = join(folder, 'portico')
  const text = await readFile(findFirst('build/image/portico', 'image/portico') as string, 'utf8')
  await writeFile(launcher, text.replaceAll('/app/dist', dist))
  const entrypoint = /^ENTRYPOINT (\[.*\])$/m.exec(await readFile(join(root, 'Dockerfile'), 'utf8'))
  if (entrypoint === null) throw new Error(`${root}/Dockerfile has no ENTRYPOINT`)
  const [, ...flags] = JSON.parse(entrypoint[1] as string) as string[]
  const command = [process.execPath, ...flags.slice(0, -1), launcher]
  return { command, remove: () => rm(folder, { recursive: true }) }
}

function run(args: readonly string[]): void {
  const { status, stderr } = spawnSync(process.execPath, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`the bundle could not be made: ${stderr}`)
}

import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/**
 * Path of the program that the Go module `test/e2e/go/<name>` builds, from the cache or built first (CoreDNS: two
 * minutes once, and it downloads its modules). Statically linked.
 */
export function goProgram(name: string): string {
  const module = join(import.meta.dirname, 'go', name)
  const digest = createHash('sha256')
  for (const file of readdirSync(module).sort()) digest.update(readFileSync(join(module, file)))
  const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'portico')
  const program = join(cache, `${name}-${digest.digest('hex').slice(0, 12)}`)
  if (existsSync(program)) return program
  if (spawnSync('go', ['version']).status !== 0)
    throw new Error(`install Go, so that ${name} can be built here, or put it at ${program}`)
  console.error(`building ${name} from its Go modules into the cache (once)`)
  mkdirSync(cache, { recursive: true })
  const partial = `${program}.${process.pid}`
  execFileSync('go', ['build', '-buildvcs=false', '-ldflags', '-s -w', '-o', partial, '.'], {
    cwd: module,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, CGO_ENABLED: '0' },
  })
  renameSync(partial, program)
  return program
}

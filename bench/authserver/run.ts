/** Measures the authorization server: the time of its token endpoint, and the memory of clients and logins. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

let failed = false
for (const script of ['token.ts', 'memory.ts']) {
  const file = fileURLToPath(new URL(script, import.meta.url))
  const { status } = spawnSync(process.execPath, ['--expose-gc', file], { stdio: ['ignore', 'inherit', 'ignore'] })
  if (status !== 0) failed = true
}
process.exit(failed ? 1 : 0)

/** Runs the real Helm, which set-up builds from ../helm. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { goProgram } from '../../setup/go-program.ts'

/** The committed chart. */
export const CHART = join(import.meta.dirname, '../../../operator/deploy/helm/portico')

export interface HelmResult {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs Helm, with its settings and cache in `home`. */
export function helm(home: string, args: readonly string[], input = ''): HelmResult {
  const { status, stdout, stderr } = spawnSync(goProgram('helm'), args, {
    encoding: 'utf8',
    input,
    maxBuffer: 1 << 26,
    env: { ...process.env, HOME: home, HELM_CACHE_HOME: home, HELM_CONFIG_HOME: home, HELM_DATA_HOME: home },
  })
  return { status, stdout, stderr }
}

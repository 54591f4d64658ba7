import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '../eventually.ts'
import { freePort } from '../network/free-port.ts'

interface Series {
  readonly metric: Readonly<Record<string, string>>
  /** Unix time in seconds and the value, as text. */
  readonly value: readonly [number, string]
}

export interface PrometheusServer {
  readonly url: string
  /**
   * Returns the result of an instant query, for now or a time in seconds since 1970. Throws Prometheus's error message
   * if it can't be evaluated.
   */
  query(text: string, time?: number): Promise<readonly Series[]>
  /** Returns the names of the firing alerts. */
  firing(): Promise<readonly string[]>
  /** Returns the errors of the last scrapes, by job; empty if there are none. */
  errors(): Promise<readonly string[]>
  close(): Promise<void>
}

interface Target {
  readonly labels: Readonly<Record<string, string>>
  readonly lastError: string
  readonly health: string
}

/**
 * Runs a real Prometheus, which scrapes these addresses (`host:port` by job) each second and evaluates the rules
 * (YAML).
 */
export async function startPrometheus(
  targets: Readonly<Record<string, string>>,
  rules: string,
): Promise<PrometheusServer> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-prometheus-'))
  const port = await freePort()
  const jobs = Object.entries(targets).map(([name, address]) => ({
    job_name: name,
    static_configs: [{ targets: [address] }],
  }))
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: ['rules.yaml'],
    scrape_configs: jobs,
  }
  await writeFile(join(directory, 'rules.yaml'), rules)
  await writeFile(join(directory, 'prometheus.yaml'), JSON.stringify(config))
  const child = spawn(
    'prometheus',
    [
      `--config.file=${join(directory, 'prometheus.yaml')}`,
      `--storage.tsdb.path=${join(directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  let output = ''
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  child.once('error', (error) => {
    output += `${error.message}: the tests need it: apt-get install -y prometheus`
  })
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`)
    const { status, error, data } = (await response.json()) as { status: string; error?: string; data: never }
    if (status !== 'success') throw new Error(error)
    return data
  }
  const close = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    }
    await rm(directory, { recursive: true, force: true })
  }
  try {
    await eventually('Prometheus is ready', async () => {
      if (child.exitCode !== null || child.pid === undefined) throw new Error(output)
      return await fetch(`http://127.0.0.1:${port}/-/ready`).then(
        ({ status }) => status === 200,
        () => false,
      )
    })
  } catch (error) {
    await close()
    throw error
  }
  return {
    url: `http://127.0.0.1:${port}`,
    async query(text, time) {
      const query = new URLSearchParams({ query: text, ...(time !== undefined && { time: String(time) }) })
      return ((await get(`/api/v1/query?${query}`)) as { result: readonly Series[] }).result
    },
    async firing() {
      const { alerts } = (await get('/api/v1/alerts')) as {
        alerts: readonly { readonly state: string; readonly labels: Readonly<Record<string, string>> }[]
      }
      return alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels['alertname'] ?? '')
    },
    async errors() {
      const { activeTargets } = (await get('/api/v1/targets')) as { activeTargets: readonly Target[] }
      return activeTargets
        .filter(({ health }) => health !== 'up')
        .map(({ labels, lastError, health }) => `${labels['job']}: ${health} ${lastError}`)
    },
    close,
  }
}

/** Returns promtool's findings about rules (YAML); empty if there are none. */
export async function ruleProblems(rules: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-rules-'))
  try {
    const file = join(directory, 'rules.yaml')
    await writeFile(file, rules)
    const { status, stdout, stderr, error } = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' })
    if (error !== undefined) throw error
    return status === 0 ? '' : stdout + stderr
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

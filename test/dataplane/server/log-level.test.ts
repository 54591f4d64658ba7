/** Changes the log level of running processes: by configuration, by a signal and by the command line. */
import { type ChildProcess, spawn } from 'node:child_process'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { freePort } from '../../support/network/free-port.ts'
import { porticoProgram } from '../../support/portico-program.ts'

const [program, ...options] = porticoProgram
const roles = {
  gateway: {
    method: 'POST',
    path: '/mcp',
    config: {
      name: 'g',
      namespace: 'default',
      role: 'gateway',
      incomingAuth: { type: 'anonymous' },
      backends: [],
    },
  },
  registry: {
    method: 'PUT',
    path: '/v1/sources/a',
    config: {
      sources: [{ name: 'own', managed: {} }],
      registries: [{ name: 'main', sources: ['own'] }],
      auth: { mode: 'anonymous' },
    },
  },
} as const

/** One data plane in a separate process. */
class Served {
  readonly lines: { readonly level: string; readonly msg: string }[] = []
  readonly #child: ChildProcess
  readonly #write: (config: object) => void
  readonly #url: string
  readonly #method: string

  constructor(role: keyof typeof roles, folder: string, port: number, level?: string) {
    const file = join(folder, 'config.yaml')
    const { method, path, config } = roles[role]
    this.#method = method
    this.#url = `http://127.0.0.1:${port}${path}`
    this.#write = (more) => {
      writeFileSync(`${file}.new`, JSON.stringify({ ...config, ...more }))
      renameSync(`${file}.new`, file)
    }
    this.#write({ logLevel: 'warn' })
    const listeners = ['--listen', `127.0.0.1:${port}`, '--admin-listen', '127.0.0.1:0']
    const args = [...options, 'serve', role]
    this.#child = spawn(program, [...args, '--config', file, ...listeners], {
      env: { ...process.env, PORTICO_STATE_DIR: join(folder, 'state'), ...(level && { PORTICO_LOG_LEVEL: level }) },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    createInterface(this.#child.stderr as NodeJS.ReadableStream).on('line', (line) => this.lines.push(JSON.parse(line)))
  }

  ready(): Promise<void> {
    return eventually('it serves', () => this.ask().then(Boolean, () => false))
  }

  /** Sends an invalid request; the reason for its refusal is logged at debug. */
  async ask(): Promise<number> {
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    const { status } = await fetch(this.#url, { method: this.#method, headers, body: '{' })
    return status
  }

  configure(config: object): void {
    this.#write(config)
  }

  async waitForLine(what: RegExp): Promise<void> {
    await eventually(String(what), () => this.lines.some(({ msg }) => what.test(msg)))
  }

  /** Sends the signal that changes the level; returns the earlier lines other than warnings. */
  async signal(what: RegExp): Promise<readonly string[]> {
    this.#child.kill('SIGUSR2')
    await this.waitForLine(what)
    const lines = this.lines.splice(0).filter(({ level }) => level !== 'warn')
    return lines.map(({ level, msg }) => `${level} ${msg}`)
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve))
    // No load balancer has to learn of it first.
    this.#child.kill('SIGINT')
    await ended
  }
}

for (const role of ['gateway', 'registry'] as const)
  test(`a ${role} logs at its configured level, and at a lower one as long as a signal asks for it`, async () => {
    using folder = temporaryFolder()
    const served = new Served(role, folder.path, await freePort())
    try {
      await served.ready()
      assert.equal(await served.signal(/switched on/), ['info debugging is switched on'])
      await served.ask()
      const logged = await served.signal(/switched off/)
      assert.ok(
        logged.some((line) => line.startsWith('debug ')),
        logged.join('\n'),
      )
      await served.ask()
      assert.equal(await served.signal(/switched on/), ['info debugging is switched on'])
      await served.signal(/switched off/)
      served.configure({ logLevel: 'debug' })
      await eventually('debug is in force', async () => {
        await served.ask()
        return served.lines.some(({ level }) => level === 'debug')
      })
      served.configure({})
      await eventually(
        'info is in force',
        () => served.lines.filter(({ msg }) => /configuration is in force/.test(msg)).length === 2,
      )
      await served.ask()
      const lines = await served.signal(/switched on/)
      assert.is(lines.slice(lines.findLastIndex((line) => /in force/.test(line))).length, 2)
    } finally {
      await served.close()
    }
  })

test('the log level of the command line goes before the configuration', async () => {
  using folder = temporaryFolder()
  const served = new Served('registry', folder.path, await freePort(), 'error')
  try {
    await served.ready()
    served.configure({ logLevel: 'debug' })
    served.configure({ logLevel: 'loud' })
    await served.waitForLine(/refused/)
    assert.equal(
      served.lines.filter(({ level }) => level !== 'error'),
      [],
    )
  } finally {
    await served.close()
  }
})

test.run()

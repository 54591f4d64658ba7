import { execFileSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { temporaryFolder } from '../support/folder.ts'
import { RunningPortico } from '../support/operator/running-portico.ts'

const root = join(import.meta.dirname, '../..')
const readme = readFileSync(join(root, 'README.md'), 'utf8')

/** Returns the commands of the `sh` blocks below a heading, with continuation lines joined and comments dropped. */
function commandsUnder(heading: string): string[] {
  const section = readme.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? ''
  const blocks = [...section.matchAll(/^```sh\n(.*?)^```/gms)].map((match) => match[1] as string)
  return blocks.flatMap((block) => block.replaceAll('\\\n', ' ').split('\n')).filter((line) => line.trim() !== '')
}

/** Runs a line in the checkout as a reader's shell would. */
const run = (line: string) =>
  execFileSync('bash', ['-euo', 'pipefail', '-c', line], {
    cwd: root,
    encoding: 'utf8',
    env: {
      ...process.env,
      PATH: [dirname(process.execPath), join(root, 'node_modules/.bin'), process.env['PATH']].join(delimiter),
    },
  })

test('the commands of the README’s “Try it” work and print what is promised', async () => {
  const commands = commandsUnder('Try it')
  assert.is(commands.length, 5, commands.join('\n'))
  const [curl, list, call, render, validate] = commands as [string, string, string, string, string]
  const folder = temporaryFolder()
  const portico = new RunningPortico(['samples/quickstart', '--state', join(folder.path, 'state')])
  try {
    const { endpoints } = await portico.ready()
    // The README names the addresses of a machine on which nothing else listens.
    assert.ok(endpoints.some(({ url }) => url === 'http://127.0.0.1:4483/mcp'))
    assert.ok(endpoints.some(({ url }) => url === 'http://127.0.0.1:8080'))
    assert.is(JSON.parse(run(curl)).servers.length, 2)
    assert.match(run(list), 'clock_')
    assert.match(run(call), 'Echo: hello')
  } finally {
    portico.signal('SIGTERM')
    await portico.ended()
    folder[Symbol.dispose]()
  }
  assert.match(run(render), 'kind: Deployment')
  run(validate)
})

test('every file and make target that the documents name is there', () => {
  const makefile = readFileSync(join(root, 'Makefile'), 'utf8')
  for (const document of globSync(['README.md', 'docs/*.md', 'samples/*/README.md'], { cwd: root })) {
    const text = readFileSync(join(root, document), 'utf8')
    for (const [, path] of text.matchAll(/\]\(([^)#:]+)\)/g)) {
      assert.ok(existsSync(join(root, dirname(document), path as string)), `${document} links to ${path}`)
    }
    for (const [, target] of text.matchAll(/(?:`|^ *(?:\$ )?)make ([a-z0-9]+)/gm)) {
      assert.match(makefile, new RegExp(`^${target}:`, 'm'), `${document} names make ${target}`)
    }
  }
})

test.run()

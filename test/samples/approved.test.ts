/** Runs the sample of approved definitions as its README describes. */
import { cpSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { connect } from '../support/gateway/clients.ts'
import { ownHost } from '../support/gateway/own-host.ts'
import { RunningPortico } from '../support/operator/running-portico.ts'

const repository = join(import.meta.dirname, '..', '..')

function copyOfSample() {
  const folder = temporaryFolder()
  const manifests = join(folder.path, 'approved')
  cpSync(join(repository, 'samples/approved'), manifests, { recursive: true })
  symlinkSync(join(repository, 'node_modules'), join(folder.path, 'node_modules'))
  return { folder, manifests }
}

test('a tool whose text changes while the sample runs is withheld, and the others stay', async () => {
  const { folder, manifests } = copyOfSample()
  const running = new RunningPortico([manifests, '--host', ownHost, '--state', join(folder.path, 'state')], {
    CHANGES_AFTER: '5',
  })
  try {
    const { endpoints } = await running.ready()
    const url = endpoints.find(({ kind }) => kind === 'VirtualMCPServer')?.url ?? ''
    const listTools = async () => {
      const { client } = await connect(url, 'modern')
      const { tools } = await client.listTools()
      await client.close()
      return tools.map(({ name }) => name).sort()
    }
    await eventually('the changed tool is withheld', async () => (await listTools()).join() === 'notes_read_note')
    // The server and its gateway report it; the message has the name and none of the text.
    const listWithheld = () => (running.reports.at(-1)?.problems ?? []).filter(({ reason }) => reason === 'Withheld')
    await eventually('both report the withheld tools', () => listWithheld().length === 2)
    assert.equal(
      listWithheld()
        .map(({ kind, message }) => [kind, message])
        .sort(),
      [
        ['MCPServer', '1 approved, 1 withheld, 0 reported, 0 missing: tools "find_notes"'],
        ['VirtualMCPServer', '1 approved, 1 withheld, 0 reported, 0 missing: notes: tools "find_notes"'],
      ],
    )
  } finally {
    await running.stop()
    folder[Symbol.dispose]()
  }
})

test.run()

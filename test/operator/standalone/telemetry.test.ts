/** Checks that settings of an MCPTelemetryConfig and of a registry take effect with their Secret and without a restart. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { postModern } from '../../support/gateway/post.ts'
import { object, StandaloneRun } from '../../support/operator/standalone-run.ts'
import { startMcpServer } from '../../support/servers/dual-server.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'

// The default delay of 5 s would slow the test down.
process.env['OTEL_BSP_SCHEDULE_DELAY'] = '30'

const settings = ({ url }: OtlpReceiver) =>
  `{enabled: true, endpoint: "${url}", insecure: true, tracing: {enabled: true, samplingRate: "1.0"}, sensitiveHeaders: [{name: x-key, secretKeyRef: {name: s, key: key}}]}`

const manifests = (remote: string, receiver: OtlpReceiver): string =>
  [
    'apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: hunter2}\n',
    object('MCPTelemetryConfig', 'otel', `spec: {openTelemetry: ${settings(receiver)}}\n`),
    object('MCPGroup', 'g', ''),
    object(
      'MCPRemoteProxy',
      'proxy',
      `spec: {remoteUrl: "${remote}", groupRef: {name: g}, telemetryConfigRef: {name: otel, serviceName: named}}\n`,
    ),
    object(
      'VirtualMCPServer',
      'all',
      'spec: {groupRef: {name: g}, incomingAuth: {type: anonymous}, telemetryConfigRef: {name: otel}}\n',
    ),
    object(
      'MCPRegistry',
      'catalog',
      `spec: {sources: [{name: own, managed: {}}], registries: [{name: main, sources: [own]}], auth: {mode: anonymous}, telemetry: {openTelemetry: ${settings(receiver)}}}\n`,
    ),
  ].join('---\n')

test('a change of the endpoint reaches a gateway, a proxy and a registry that run on', async () => {
  const remote = await startMcpServer()
  const [first, second] = [await startOtlpReceiver(), await startOtlpReceiver()]
  using folder = temporaryFolder({ 'manifests/all.yaml': manifests(remote.url, first) })
  try {
    await using run = new StandaloneRun(folder)
    const { endpoints } = await run.until('all is ready', ({ ready }) => ready)
    const reports = async (receiver: OtlpReceiver) => {
      await eventually('all three report', async () => {
        for (const { kind, url } of endpoints)
          if (kind === 'MCPRegistry') await (await fetch(`${url}/registry/main/v0.1/servers`)).text()
          else await postModern(url, 'tools/list')
        return new Set(receiver.spans.map(({ resource }) => resource['service.name'])).size === 3
      })
      const names = new Set(receiver.spans.map(({ resource }) => resource['service.name']))
      assert.equal([...names].sort(), ['all', 'catalog', 'named'])
      assert.ok(receiver.exports.every(({ headers }) => headers['x-key'] === 'hunter2'))
    }
    await reports(first)
    const changes = await run.changesAfter(() => folder.write('manifests/all.yaml', manifests(remote.url, second)))
    await reports(second)
    assert.equal(
      changes.filter((change) => change.includes('restarted')),
      [],
    )
  } finally {
    await Promise.all([remote.close(), first.close(), second.close()])
  }
})

test.run()

/**
 * Checks that what works between a client and a server of the SDKs works through a gateway and a proxy, with the same
 * outcome.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { hasWorked, run } from './compare.ts'
import { httpShapes, type SdkServer, startSdkServer } from './http-servers.ts'
import { scenarios } from './scenarios.ts'
import { clientKinds } from './sdk-client.ts'

/** The timeout of a direct run in milliseconds; scenarios that exceed it are not compared. */
const DIRECT_MS = 3_000

const startInFront = ({ url }: SdkServer, role: 'proxy' | 'gateway'): Promise<GatewayUnderTest> =>
  startGateway({ role, backends: [{ name: 'b', url }] })

for (const shape of httpShapes)
  for (const kind of clientKinds)
    test(`${shape}, client ${kind}: everything that works directly works through a proxy and a gateway`, async () => {
      const alone = await startSdkServer(shape)
      const servers = [await startSdkServer(shape), await startSdkServer(shape)] as const
      const proxy = await startInFront(servers[0], 'proxy')
      const gateway = await startInFront(servers[1], 'gateway')
      try {
        for (const name of Object.keys(scenarios)) {
          const direct = await run(name, { kind, target: alone.url, ms: DIRECT_MS })
          if (!hasWorked(direct)) continue
          const relayed = await Promise.all([
            run(name, { kind, target: proxy.url }),
            run(name, { kind, target: gateway.url, prefix: 'b_' }),
          ])
          for (const outcome of relayed) assert.equal(outcome, direct, name)
        }
      } finally {
        await Promise.all([proxy.close(), gateway.close()])
        await Promise.all([alone, ...servers].map((server) => server.close()))
      }
    })

test.run()

import { pino } from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { serve } from '../../../cli/operator/listeners.ts'

const get = async (url: string) => {
  const response = await fetch(url)
  return { status: response.status, retryAfter: response.headers.get('retry-after'), text: await response.text() }
}

test('while the operator waits for the API server it is alive and not ready, and metrics are 503', async () => {
  await using open = new AsyncDisposableStack()
  const stop = new AbortController()
  const served = await serve(
    () => undefined,
    { health: '127.0.0.1:0', metrics: '127.0.0.1:0' },
    {
      admission: () => undefined,
      io: { stop: stop.signal },
      log: pino({ level: 'silent' }),
      group: 'portico.dev',
      open,
    },
  )
  const metrics = await get(`${served.metrics}/metrics`)
  assert.is(metrics.status, 503)
  assert.is(metrics.retryAfter, '5')
  assert.is((await get(`${served.health}/healthz`)).status, 200)
  const waiting = await get(`${served.health}/readyz`)
  assert.is(waiting.status, 503)
  assert.match(waiting.text, /waiting for the API server/)
  stop.abort()
  assert.match((await get(`${served.health}/readyz`)).text, /the operator is stopping/)
})

test.run()

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { EventSink } from '../../../../../dataplane/gateway/sessions/relay/relays.ts'
import { parseEventId } from '../../../../../dataplane/gateway/sessions/streams/event-log.ts'
import { EventLogs } from '../../../../../dataplane/gateway/sessions/streams/streams.ts'

class RecordingSink implements EventSink {
  readonly texts: string[] = []
  readonly ids: (string | undefined)[] = []
  end_ = ''

  event(data: Buffer, id?: string): boolean {
    this.texts.push(data.toString())
    this.ids.push(id)
    return true
  }

  part(data: Buffer): boolean {
    this.texts.push(data.toString())
    return false
  }

  onDrain(): void {}
  heartbeat(): void {}

  end(): void {
    this.end_ = 'ended'
  }

  abort(): void {
    this.end_ = 'cut'
  }
}

const open = (logs: EventLogs, session = 's', request?: string) =>
  logs.open({ session, replica: 'r', request, isPrimed: false })

const MIB = 1024 * 1024

test('the newest 256 events of a session are kept, across its streams', () => {
  const logs = new EventLogs()
  const [one, two] = [open(logs), open(logs)]
  for (let count = 1; count <= 200; count++) for (const log of [one, two]) log.event(Buffer.from(String(count)))
  for (const log of [one, two]) {
    const listener = new RecordingSink()
    assert.ok(log.attach(listener, 0))
    assert.equal([listener.texts.length, listener.texts[0], listener.texts.at(-1)], [128, '73', '200'])
  }
})

test('a session may keep 1 MiB and all sessions 64 MiB; the oldest events are dropped first', () => {
  const logs = new EventLogs()
  const large = Buffer.alloc(200 * 1024)
  const first = open(logs, 's0')
  for (let count = 0; count < 20; count++) first.event(large)
  assert.ok(logs.bytes <= MIB && logs.bytes > MIB / 2)
  for (let session = 1; session < 200; session++) {
    const log = open(logs, `s${session}`)
    for (let count = 0; count < 5; count++) log.event(large)
  }
  assert.ok(logs.bytes <= 64 * MIB && logs.bytes > 60 * MIB)
  const [oldest, newest] = [new RecordingSink(), new RecordingSink()]
  first.attach(oldest, 0)
  assert.is(oldest.texts.length, 0)
  logs.find('s199', (200).toString(36))?.attach(newest, 0)
  assert.is(newest.texts.length, 5)
})

test('events are dropped with their session, or two minutes after their stream ended', () => {
  const logs = new EventLogs()
  const [ended, over, running] = [open(logs, 'a'), open(logs, 'b'), open(logs, 'c')]
  for (const log of [ended, over, running]) log.event(Buffer.from('x'))
  logs.forgetAll('a')
  ended.event(Buffer.from('nobody comes back for this'))
  over.end()
  const each = logs.bytes / 2
  logs.sweep(performance.now() + 119_000)
  assert.ok(logs.find('b', over.options.stream))
  logs.sweep(performance.now() + 121_000)
  assert.is(logs.find('a', ended.options.stream), undefined)
  assert.is(logs.find('b', over.options.stream), undefined)
  assert.is(logs.find('c', running.options.stream), running)
  assert.is(logs.bytes, each)
})

test('a session with many streams keeps the newest', () => {
  const logs = new EventLogs()
  const created = Array.from({ length: 200 }, () => {
    const log = open(logs)
    log.end()
    return log
  })
  assert.is(created.filter(({ options }) => logs.find('s', options.stream) !== undefined).length, 64)
})

test('a writer that waits for room continues when the connection breaks', () => {
  const log = open(new EventLogs())
  const sink = new RecordingSink()
  log.begin(sink)
  assert.is(log.part(Buffer.from('{')), false)
  let hasRoom = false
  log.onDrain(() => {
    hasRoom = true
  })
  log.detach(sink)
  assert.ok(hasRoom)
  const back = new RecordingSink()
  assert.ok(log.attach(back, 0))
  log.part(Buffer.from('}'))
  log.end()
  assert.equal([back.texts.join(''), back.end_], ['{}', 'ended'])
})

test('an event id has replica, stream, number and request, and other texts are refused', () => {
  const log = open(new EventLogs(), 's', '"a\u00e9.b"')
  const sink = new RecordingSink()
  log.begin(sink)
  log.event(Buffer.from('x'))
  const id = parseEventId(String(sink.ids[0]))
  assert.equal(id, { replica: 'r', stream: log.options.stream, seq: 1, request: '"a\u00e9.b"' })
  for (const text of ['', '1', 'a.b', 'a.b.c', 'a.b.1.', '../x.y.1', 'a.b.1.c.d', `a.b.1.${'x'.repeat(500)}`])
    assert.is(parseEventId(text), undefined, text)
})

test('the newest 16,384 ended streams of all sessions are kept', () => {
  const logs = new EventLogs()
  const opened = Array.from({ length: 16_400 }, (_, index) => open(logs, `s${index}`))
  for (const log of opened) log.end()
  const isKept = (index: number) => logs.find(`s${index}`, opened[index]?.options.stream ?? '') !== undefined
  assert.equal([isKept(15), isKept(16), isKept(16_399)], [false, true, true])
})

test('parts of unfinished answers are counted, and not kept over the limit', () => {
  const logs = new EventLogs()
  const part = Buffer.alloc(200 * 1024)
  const opened = Array.from({ length: 600 }, (_, index) => open(logs, `s${index % 100}`))
  for (const log of opened) log.part(part)
  assert.ok(logs.bytes <= 64 * MIB, `${logs.bytes}`)
  assert.ok(logs.bytes > 60 * MIB, `${logs.bytes}`)
  // The beginning of an answer that was not kept is gone.
  assert.ok(opened[0]?.attach(new RecordingSink(), 0))
  assert.not(opened.at(-1)?.attach(new RecordingSink(), 0))
  for (const log of opened) log.end()
  assert.ok(logs.bytes <= 64 * MIB)
  for (let index = 0; index < 100; index++) logs.forgetAll(`s${index}`)
  assert.is(logs.bytes, 0)
})

test.run()

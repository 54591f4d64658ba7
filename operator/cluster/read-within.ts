/** Reads the text of a body. Throws an Error if it has more bytes; `what` names it there. */
export async function readWithin(mostBytes: number, body: AsyncIterable<Buffer>, what = 'the answer'): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > mostBytes) throw new Error(`${what} has more than ${mostBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

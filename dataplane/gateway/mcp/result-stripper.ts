import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  JsonSkipper,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from '../../server/json-lexer.ts'

const SPACE = 0x20

/** The longest name of a member that is removed, in bytes. */
const LONGEST_NAME = 64

interface MemberEdit {
  readonly name: string
  /** Converts the member's value (JSON text) to a new one; undefined removes the member. */
  edit(value: string): string | undefined
}

/** The longest value that is edited. A longer one is removed. */
const LONGEST_EDITED = 64 * 1024

/**
 * Removes members from the result of a JSON-RPC answer, and edits one of them, while its bytes pass in chunks of any
 * size. Everything else stays unchanged. The input must be well-formed JSON.
 */
export class ResultStripper {
  /** The JSON text of the result's `resultType`, once it has passed. */
  resultType: string | undefined
  readonly #dropped: ReadonlySet<string>
  /** The nesting: 1 in the message, 2 in its result. */
  #depth = 0
  #inResult = false
  readonly #skipper = new JsonSkipper()
  #inName = false
  #nameIsNext = false
  /** True while bytes are passed on. */
  #passing = true
  /** The last name in the message or its result, as Latin-1. */
  #name = ''
  #isFirst = true
  /** The bytes of the value of `resultType` that have been received. */
  #type = ''
  #from = 0
  readonly #edit: MemberEdit | undefined
  readonly #objectMember: string | undefined
  /** True if the next value is that of `objectMember`. */
  #isProbing = false
  /** The bytes of the edited value that have been received, with the colon; undefined elsewhere. */
  #edited: Buffer[] | undefined
  #editedSize = 0
  #editedFrom = 0

  /** @param objectMember the name of a member that is removed if it is not an object */
  constructor(dropped: ReadonlySet<string>, edit?: MemberEdit, objectMember?: string) {
    this.#dropped = dropped
    this.#edit = edit
    this.#objectMember = objectMember
  }

  /** Reads the next bytes, and appends the remaining ones to `out`. */
  push(chunk: Buffer, out: Buffer[]): void {
    this.#from = 0
    this.#editedFrom = 0
    let at = 0
    while (at < chunk.length) {
      if (this.#skipper.inString) at = this.#string(chunk, at, out)
      else this.#structure(chunk, at++, out)
    }
    if (this.#passing && at > this.#from) out.push(chunk.subarray(this.#from, at))
    this.#collect(chunk, at)
  }

  #structure(chunk: Buffer, at: number, out: Buffer[]): void {
    const code = chunk[at] as number
    if (this.#isProbing && code !== COLON && code > SPACE) this.#probe(code, at, out)
    if (code === QUOTE) this.#openString(chunk, at, out)
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      this.#depth++
      if (this.#depth === 2 && code === OPEN_OBJECT && this.#name === 'result') this.#inResult = true
      this.#nameIsNext = this.#hasNames
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) this.#close(chunk, at, out)
    else if (code === COMMA) this.#comma(chunk, at, out)
    else if (code === COLON && this.#nameIsNext) this.#nameIsNext = false
    else this.#read(chunk, at, at + 1)
  }

  /** True in an object whose names matter: the message or its result. */
  get #hasNames(): boolean {
    return this.#depth === 1 || (this.#depth === 2 && this.#inResult)
  }

  #openString(chunk: Buffer, at: number, out: Buffer[]): void {
    this.#skipper.inString = true
    this.#inName = this.#nameIsNext
    if (this.#inName) this.#name = ''
    else this.#read(chunk, at, at + 1)
    if (this.#inName && this.#inResult) this.#stop(chunk, at, out)
  }

  #close(chunk: Buffer, at: number, out: Buffer[]): void {
    if (this.#depth === 2 && this.#inResult) {
      this.#endMember(chunk, at, out)
      this.#inResult = false
      this.#goOn(at)
    }
    this.#depth--
    this.#nameIsNext = false
  }

  #comma(chunk: Buffer, at: number, out: Buffer[]): void {
    this.#nameIsNext = this.#hasNames
    if (this.#depth !== 2 || !this.#inResult) return
    this.#endMember(chunk, at, out)
    this.#stop(chunk, at, out)
  }

  /** Continues to read a string. Returns the index after it, or the end of the chunk. */
  #string(chunk: Buffer, start: number, out: Buffer[]): number {
    const behind = this.#skipper.skipString(chunk, start)
    if (!this.#inName) {
      this.#read(chunk, start, behind)
      return behind
    }
    const isOpen = this.#skipper.inString
    this.#name += chunk.toString('latin1', start, isOpen ? behind : behind - 1)
    if (!isOpen) this.#endName(behind, out)
    else if (this.#name.length > LONGEST_NAME) this.#keepMember(behind, '', out)
    return behind
  }

  #endName(behind: number, out: Buffer[]): void {
    if (this.#inResult && this.#name === this.#edit?.name) {
      this.#inName = false
      this.#edited = []
      this.#editedSize = 0
      this.#editedFrom = behind
    } else if (this.#inResult && this.#name === this.#objectMember) {
      this.#inName = false
      this.#isProbing = true
    } else if (!this.#inResult || this.#dropped.has(this.#name)) this.#inName = false
    else this.#keepMember(behind, '"', out)
  }

  #keepMember(behind: number, nameEnd: string, out: Buffer[]): void {
    this.#inName = false
    if (!this.#inResult) return
    out.push(Buffer.from(`${this.#isFirst ? '' : ','}"${this.#name}${nameEnd}`, 'latin1'))
    this.#isFirst = false
    this.#goOn(behind)
  }

  /** Keeps the member whose name was read if its value, which begins here, is an object. */
  #probe(code: number, at: number, out: Buffer[]): void {
    this.#isProbing = false
    if (code !== OPEN_OBJECT) return
    out.push(Buffer.from(`${this.#isFirst ? '' : ','}"${this.#name}":`, 'latin1'))
    this.#isFirst = false
    this.#goOn(at)
  }

  /** Stores the value of `resultType` while it passes. */
  #read(chunk: Buffer, from: number, to: number): void {
    if (this.#passing || this.#depth !== 2 || this.#name !== 'resultType' || this.#type.length > LONGEST_NAME) return
    this.#type += chunk.toString('latin1', from, Math.min(to, from + LONGEST_NAME))
  }

  #endMember(chunk: Buffer, at: number, out: Buffer[]): void {
    if (!this.#passing && this.#name === 'resultType') this.resultType = this.#type.trim()
    if (this.#edited === undefined) return
    this.#collect(chunk, at)
    const text = Buffer.concat(this.#edited).toString('utf8')
    this.#edited = undefined
    const value =
      this.#editedSize > LONGEST_EDITED ? undefined : this.#edit?.edit(text.slice(text.indexOf(':') + 1).trim())
    if (value === undefined) return
    out.push(Buffer.from(`${this.#isFirst ? '' : ','}"${this.#name}":${value}`))
    this.#isFirst = false
  }

  #collect(chunk: Buffer, to: number): void {
    if (this.#edited === undefined || to <= this.#editedFrom) return
    this.#editedSize += to - this.#editedFrom
    if (this.#editedSize <= LONGEST_EDITED) this.#edited.push(Buffer.from(chunk.subarray(this.#editedFrom, to)))
  }

  #stop(chunk: Buffer, at: number, out: Buffer[]): void {
    if (this.#passing && at > this.#from) out.push(chunk.subarray(this.#from, at))
    this.#passing = false
  }

  #goOn(at: number): void {
    if (this.#passing) return
    this.#passing = true
    this.#from = at
  }
}

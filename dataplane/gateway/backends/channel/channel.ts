import type { BackendFailure } from '../connection/failure.ts'
import type { DroppedMessage } from './dropped-message.ts'

/** Carries whole JSON-RPC messages both ways, to a server that does not answer HTTP requests one by one. */
export interface Channel {
  /**
   * Sends one message, with the headers of who sends it where the channel has any. Throws, or rejects, with a
   * BackendFailure where that can't be.
   */
  send(text: string, headers?: readonly string[]): void | Promise<void>
  /** Ends it; `closed` is called afterwards. */
  close(): void
}

/** Takes what comes on a channel. */
export interface ChannelReceiver {
  /** One message, or what stands in the place of one: servers print other things too. */
  message(text: string): void
  /** A message that was too large to be taken. */
  tooLarge(message: DroppedMessage): void
  /** The channel is over, for good. Called once, and never before the channel was open. */
  closed(reason: BackendFailure): void
}

/**
 * Opens a channel; `headers` is a flat list, those of the request that it is opened for. Rejects with a BackendFailure
 * where there is none now.
 */
export type OpenChannel = (receiver: ChannelReceiver, headers: readonly string[]) => Promise<Channel>

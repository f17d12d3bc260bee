/** The same content came under a new id: most likely a publisher that makes a new id each time it repeats a message. */
export interface RepeatedContent {
  /** The handler's identity. */
  readonly consumer: string;
  /** The new id. */
  readonly messageId: string;
  /** Under which the same content was handled before. */
  readonly previousMessageId: string;
}

/** The option `inbox.onRepeatedContent`. What it throws or rejects with is logged. */
export type OnRepeatedContent = (event: RepeatedContent) => void | Promise<void>;

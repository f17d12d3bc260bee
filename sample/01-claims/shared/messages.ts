/** What the two services agree on: the messages, and nothing else. */

/** Routing key `claim.reported`, sent by intake. */
export interface ClaimReported {
  number: string;
  loss: string;
}

/** Routing key `case.opened`, sent by settlement. */
export interface CaseOpened {
  claimNumber: string;
  caseId: number;
}

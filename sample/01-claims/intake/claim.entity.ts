import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity('claims')
export class Claim {
  @PrimaryColumn({ type: 'varchar', length: 20 })
  number!: string;

  @Column({ type: 'text' })
  loss!: string;

  /** Known once settlement has opened the case. */
  @Column({ type: 'int', name: 'case_id', nullable: true })
  caseId!: number | null;
}

"""Families that read and write text."""

from __future__ import annotations

from dataclasses import replace

from tests.zoo.family import Family
from tests.zoo.model_inputs import long_text, long_text_and_answer, text, text_and_answer, text_class
from tests.zoo.small_models import family

_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
_EXPERT_WIDTHS = {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}

_REFORMER = replace(
    family(
        "reformer",
        "encoder",
        "ForMaskedLM",
        long_text,
        axial_pos_shape=(8, 8),
        axial_pos_embds_dim=(16, 16),
        attention_head_size=8,
        feed_forward_size=64,
        lsh_attn_chunk_length=8,
        local_attn_chunk_length=8,
        attn_layers=["local", "lsh", "local", "lsh"],
        num_buckets=4,
    ),
    hides_layers=True,
)

ENCODERS: tuple[Family, ...] = (
    family("bert", "encoder", "ForMaskedLM", text),
    family("roberta", "encoder", "ForSequenceClassification", text_class),
    family("albert", "encoder", "ForMaskedLM", text),
    family("distilbert", "encoder", "ForMaskedLM", text),
    family("electra", "encoder", "ForMaskedLM", text),
    family("deberta-v2", "encoder", "ForMaskedLM", text, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    family("modernbert", "encoder", "ForMaskedLM", text, cls_token_id=1, sep_token_id=2),
    family("funnel", "encoder", "ForMaskedLM", text, block_sizes=[2, 2], num_decoder_layers=2),
    family("longformer", "encoder", "ForMaskedLM", long_text, attention_window=16, max_position_embeddings=80),
    family("big_bird", "encoder", "ForMaskedLM", long_text, block_size=4, num_random_blocks=2),
    family("fnet", "encoder", "ForMaskedLM", text),
    family("xlnet", "encoder", "ForSequenceClassification", text_class),
    family("convbert", "encoder", "ForMaskedLM", text),
    family("mobilebert", "encoder", "ForMaskedLM", text, intra_bottleneck_size=16, true_hidden_size=16),
    _REFORMER,
    family("esm", "encoder", "ForMaskedLM", text, mask_token_id=3, token_dropout=False),
    family(
        "perceiver",
        "encoder",
        "ForMaskedLM",
        text,
        num_latents=8,
        d_latents=32,
        num_self_attends_per_block=4,
        num_self_attention_heads=4,
        num_cross_attention_heads=4,
        max_position_embeddings=16,
    ),
    family("nystromformer", "encoder", "ForMaskedLM", long_text, num_landmarks=8, segment_means_seq_len=64),
)

DECODERS: tuple[Family, ...] = (
    family("gpt2", "decoder", "ForCausalLM", text),
    family("gpt_neo", "decoder", "ForCausalLM", text, attention_types=[[["global", "local"], 2]]),
    family("gpt_neox", "decoder", "ForCausalLM", text),
    family("bloom", "decoder", "ForCausalLM", text),
    family("opt", "decoder", "ForCausalLM", text, word_embed_proj_dim=32),
    family("llama", "decoder", "ForCausalLM", text),
    family("gemma2", "decoder", "ForCausalLM", text),
    family("gemma3_text", "decoder", "ForCausalLM", text),
    family("qwen3", "decoder", "ForCausalLM", text),
    family("phi", "decoder", "ForCausalLM", text),
    family("falcon", "decoder", "ForCausalLM", text),
)

MIXTURES: tuple[Family, ...] = (
    family("mixtral", "mixture of experts", "ForCausalLM", text, num_local_experts=4),
    family("olmoe", "mixture of experts", "ForCausalLM", text, **_EXPERTS),
    family("qwen2_moe", "mixture of experts", "ForCausalLM", text, **_EXPERTS, **_EXPERT_WIDTHS),
    family(
        "deepseek_v3",
        "mixture of experts",
        "ForCausalLM",
        text,
        moe_intermediate_size=16,
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        kv_lora_rank=16,
        q_lora_rank=16,
        qk_rope_head_dim=8,
        v_head_dim=8,
        qk_nope_head_dim=8,
        first_k_dense_replace=1,
        num_key_value_heads=4,
    ),
    family("gpt_oss", "mixture of experts", "ForCausalLM", text, num_local_experts=4, num_experts_per_tok=2),
    family(
        "switch_transformers",
        "mixture of experts",
        "ForSeq2SeqLM",
        text_and_answer,
        num_experts=4,
        num_sparse_encoder_layers=2,
        num_sparse_decoder_layers=2,
        expert_capacity=16,
    ),
    family(
        "nllb-moe",
        "mixture of experts",
        "ForSeq2SeqLM",
        text_and_answer,
        num_experts=4,
        expert_capacity=16,
        encoder_sparse_step=2,
        decoder_sparse_step=2,
    ),
)

STATE_SPACES: tuple[Family, ...] = (
    family("mamba", "state space", "ForCausalLM", text, state_size=4, time_step_rank=2),
    family("mamba2", "state space", "ForCausalLM", text, state_size=4, num_heads=8, n_groups=2, chunk_size=8),
    family(
        "jamba",
        "state space",
        "ForCausalLM",
        text,
        num_experts=4,
        attn_layer_period=2,
        attn_layer_offset=1,
        mamba_d_state=4,
        mamba_dt_rank=2,
    ),
    family("rwkv", "state space", "ForCausalLM", text, attention_hidden_size=32, context_length=64),
    family("recurrent_gemma", "state space", "ForCausalLM", text, num_key_value_heads=4),
    family(
        "qwen3_next",
        "state space",
        "ForCausalLM",
        text,
        **_EXPERTS,
        **_EXPERT_WIDTHS,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
    ),
)

TRANSLATORS: tuple[Family, ...] = (
    family("t5", "encoder-decoder", "ForSeq2SeqLM", text_and_answer),
    family("bart", "encoder-decoder", "ForSeq2SeqLM", text_and_answer, forced_eos_token_id=2),
    family("marian", "encoder-decoder", "ForSeq2SeqLM", text_and_answer, decoder_vocab_size=99),
    family("m2m_100", "encoder-decoder", "ForSeq2SeqLM", text_and_answer),
    family("longt5", "encoder-decoder", "ForSeq2SeqLM", text_and_answer, local_radius=4),
    family(
        "prophetnet",
        "encoder-decoder",
        "ForSeq2SeqLM",
        text_and_answer,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
    ),
    family(
        "led",
        "encoder-decoder",
        "ForSeq2SeqLM",
        text_and_answer,
        attention_window=8,
        max_encoder_position_embeddings=64,
        max_decoder_position_embeddings=64,
    ),
    family(
        "bigbird_pegasus",
        "encoder-decoder",
        "ForSeq2SeqLM",
        long_text_and_answer,
        block_size=4,
        num_random_blocks=2,
    ),
)

FAMILIES = (*ENCODERS, *DECODERS, *MIXTURES, *STATE_SPACES, *TRANSLATORS)
